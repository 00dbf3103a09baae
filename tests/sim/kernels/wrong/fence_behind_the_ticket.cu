// The fence is there, but after the atomic.
// launch: grid=4 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ int ticket;
    if (t == 0) {
        y[blockIdx.x] = x[i];  // expect: RACE
        ticket = atomicAdd(state, 1);
        __threadfence();
    }
    __syncthreads();
    if (ticket == gridDim.x - 1) y[100 + t] = y[t % 4];  // expect: RACE
}
