// The same with a volatile flag.
// launch: grid=2 block=32
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    volatile int* flag = state;
    if (blockIdx.x == 0) {
        y[t] = x[t];
        __threadfence();
        __syncthreads();
        if (t == 0) *flag = 1;
    } else {
        if (t == 0) while (*flag == 0) { }
        __syncthreads();
        __threadfence();
        y[64 + t] = y[31 - t];
    }
}
