// Shared atomics, then global atomics.
// launch: grid=3 block=128
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ int bins[16];
    if (t < 16) bins[t] = 0;
    __syncthreads();
    atomicAdd(&bins[(int)(x[i] * 16) & 15], 1);
    __syncthreads();
    if (t < 16) atomicAdd(&state[t], bins[t]);
}
