// Two threads write the same word.
// launch: grid=1 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[32];
    s[t / 2] = x[i];  // expect: RACE
    __syncthreads();
    y[i] = s[t / 2];
}
