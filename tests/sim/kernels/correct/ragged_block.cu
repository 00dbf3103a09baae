// A block that is no multiple of a warp.
// launch: grid=2 block=50
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[50];
    s[t] = x[i];
    __syncthreads();
    if (t >= 40) return;
    y[i] = s[49 - t];
}
