// Read before the others have written.
// launch: grid=1 block=128
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[128];
    s[t] = x[i];  // expect: RACE
    y[i] = s[127 - t];  // expect: RACE
}
