// Every thread writes; behind the barrier one thread fences for all.
// launch: grid=4 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ int ticket;
    y[i] = x[i] * 2;
    __syncthreads();
    if (t == 0) {
        __threadfence();
        ticket = atomicAdd(state, 1);
        __threadfence();
    }
    __syncthreads();
    if (ticket == gridDim.x - 1) y[1000 + t] = y[255 - t];
}
