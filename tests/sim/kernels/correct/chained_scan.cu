// Every block adds its sum to the prefix of the block before it.
// launch: grid=6 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float before;
    float v = x[i];
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    __shared__ float sums[2];
    if (t % 32 == 0) sums[t / 32] = v;
    __syncthreads();
    if (t == 0) {
        const int b = blockIdx.x;
        if (b > 0) while (atomicAdd(&state[b - 1], 0) == 0) { }
        __threadfence();
        before = b > 0 ? y[b - 1] : 0;
        y[b] = before + sums[0] + sums[1];
        __threadfence();
        atomicExch(&state[b], 1);
    }
    __syncthreads();
    y[512 + i] = before + x[i];
}
