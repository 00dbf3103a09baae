// Neighbours write neighbouring bytes.
// launch: grid=2 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ unsigned char s[64];
    s[t] = (unsigned char)t;
    __syncthreads();
    y[i] = s[63 - t];
}
