// Every block writes the whole output.
// launch: grid=2 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    y[t] = x[i];  // expect: RACE
}
