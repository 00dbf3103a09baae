// Each warp by itself, ordered by __syncwarp.
// launch: grid=2 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[64];
    s[t] = x[i];
    __syncwarp();
    float v = s[t ^ 31];
    __syncwarp();
    s[t] = v;
    __syncwarp();
    for (int o = 16; o > 0; o /= 2) {
        const float other = s[t ^ o];
        __syncwarp();
        s[t] = v = v + other;
        __syncwarp();
    }
    y[i] = s[t];
}
