// Every thread writes and fences; one thread takes the ticket behind the barrier.
// launch: grid=4 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ int ticket;
    y[i] = x[i] * 2;
    __threadfence();
    __syncthreads();
    if (t == 0) ticket = atomicAdd(state, 1);
    __syncthreads();
    if (ticket == gridDim.x - 1) y[1000 + t] = y[t] + y[64 + t] + y[128 + t] + y[192 + t];
}
