// The last block resets the counter: every ticket was taken behind a fence.
// launch: grid=4 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ int ticket;
    atomicAdd(&state[1 + t % 8], int(x[i] * 10));
    __threadfence();
    __syncthreads();
    if (t == 0) ticket = atomicAdd(state, 1);
    __syncthreads();
    if (ticket == gridDim.x - 1) {
        if (t < 8) y[t] = state[1 + t];
        if (t == 0) state[0] = 0;
    }
}
