// A block sum: shuffles within warps, shared memory between them.
// launch: grid=2 block=128
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float sums[4];
    float v = x[i];
    for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync(~0u, v, o);
    if (t % 32 == 0) sums[t / 32] = v;
    __syncthreads();
    if (t < 32) {
        v = t < 4 ? sums[t] : 0;
        for (int o = 2; o > 0; o /= 2) v += __shfl_down_sync(~0u, v, o);
        if (t == 0) y[blockIdx.x] = v;
    }
}
