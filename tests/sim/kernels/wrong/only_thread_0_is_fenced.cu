// All threads write, one fences, and no barrier joins them.
// launch: grid=3 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ int ticket;
    y[i] = x[i];  // expect: RACE
    if (t == 0) {
        __threadfence();
        ticket = atomicAdd(state, 1);
    }
    __syncthreads();
    if (ticket == gridDim.x - 1) y[1000 + t] = y[t + 32];  // expect: RACE
}
