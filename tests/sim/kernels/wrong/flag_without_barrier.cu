// Thread 0 has seen the flag, the others have not.
// launch: grid=2 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (blockIdx.x == 0) {
        y[t] = x[t];  // expect: RACE
        __threadfence();
        __syncthreads();
        if (t == 0) atomicExch(state, 1);
    } else {
        if (t == 0) while (atomicAdd(state, 0) == 0) { }
        y[64 + t] = y[63 - t];  // expect: RACE
    }
}
