// Read, add, write: updates get lost.
// launch: grid=1 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ int bins[8];
    if (t < 8) bins[t] = 0;
    __syncthreads();
    bins[t % 8] += 1;  // expect: RACE
    __syncthreads();
    if (t < 8) state[t] = bins[t];
}
