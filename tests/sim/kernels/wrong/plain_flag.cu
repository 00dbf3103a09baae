// The flag itself is an ordinary variable.
// launch: grid=2 block=32
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (blockIdx.x == 0) {
        y[t] = x[t];  // expect: RACE
        __threadfence();
        __syncthreads();
        if (t == 0) state[0] = 1;  // expect: RACE
    } else if (state[0] == 1)  // expect: RACE
        y[64 + t] = y[31 - t];  // expect: RACE
}
