// A lock with a fence before it is given back, but none behind the waiting.
// launch: grid=4 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (t == 0) {
        const int ticket = atomicAdd(&state[0], 1);
        while (atomicAdd(&state[1], 0) != ticket) { }
        y[0] = y[0] * 0.5f + x[i];  // expect: UNORDERED
        __threadfence();
        atomicAdd(&state[1], 1);
    }
}
