// The halo is read but never loaded.
// launch: grid=1 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[66];
    s[t + 1] = x[i];
    __syncthreads();
    y[i] = s[t] + s[t + 2];  // expect: UNINIT
}
