// bitonic_block.cu: sorts 1024 numbers a block in shared memory
// Entry:   sort(const float x[n] in, float y[n] out, int n)
// Launch:  sort block=(512) grid=(cdiv(n, 1024))

extern "C" __global__ void sort(const float* __restrict__ x, float* __restrict__ y, int n)
{
    __shared__ float s[1024];
    const int first = blockIdx.x * 1024;
    for (int t = threadIdx.x; t < 1024; t += 512) s[t] = first + t < n ? x[first + t] : INFINITY;
    for (int size = 2; size <= 1024; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            const int i = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
            const bool up = (i & size) == 0;
            const float a = s[i], b = s[i + stride];
            if ((a > b) == up) {
                s[i] = b;
                s[i + stride] = a;
            }
        }
    __syncthreads();
    for (int t = threadIdx.x; t < 1024; t += 512)
        if (first + t < n) y[first + t] = s[t];
}
