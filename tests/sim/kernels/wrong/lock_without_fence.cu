// The lock may open before the sum is written.
// launch: grid=4 block=32
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (t == 0) {
        while (atomicCAS(state, 0, 1) != 0) { }
        y[0] += x[i];  // expect: RACE
        atomicExch(state, 0);
    }
}
