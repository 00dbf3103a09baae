// monte_carlo_pi.cu: points in a circle, a generator of its own for each thread
// Entry:   count(unsigned int hits[n] out, int n, int rounds)
// Launch:  count block=(256) grid=(cdiv(n, 256))

extern "C" __global__ void count(unsigned int* hits, int n, int rounds)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    unsigned int state = i * 2654435761u + 1u, found = 0;
    for (int k = 0; k < rounds; ++k) {
        state ^= state << 13; state ^= state >> 17; state ^= state << 5;
        const float x = (state & 0xffff) / 65536.0f, y = (state >> 16) / 65536.0f;
        found += x * x + y * y < 1.0f;
    }
    hits[i] = found;
}
