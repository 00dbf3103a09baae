// The lock protects the wrong line.
// launch: grid=4 block=32
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (t == 0) {
        while (atomicCAS(state, 0, 1) != 0) { }
        y[1] = x[i];
        __threadfence();
        atomicExch(state, 0);
        y[0] += x[i];  // expect: RACE
    }
}
