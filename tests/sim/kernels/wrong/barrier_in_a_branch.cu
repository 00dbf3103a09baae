// Half of a warp comes to the barrier.
// launch: grid=1 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[64];
    s[t] = x[i];
    if (t % 32 < 16) __syncthreads();  // expect: SYNC
    y[i] = s[t];
}
