// Through global memory within a block, a barrier between.
// launch: grid=3 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    y[i] = x[i];
    __syncthreads();
    const float v = y[blockIdx.x * 64 + 63 - t];
    __syncthreads();
    y[i] = v;
}
