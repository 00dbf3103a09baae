// A value from thread 0 to all, twice.
// launch: grid=2 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float shared;
    for (int k = 0; k < 3; ++k) {
        if (t == 0) shared = x[k];
        __syncthreads();
        y[i] += shared;
        __syncthreads();
    }
}
