// Inclusive scan of Hillis and Steele.
// launch: grid=2 block=128
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[128];
    float v = x[i];
    s[t] = v;
    for (int o = 1; o < 128; o *= 2) {
        __syncthreads();
        const float left = t >= o ? s[t - o] : 0;
        __syncthreads();
        s[t] = v += left;
    }
    y[i] = v;
}
