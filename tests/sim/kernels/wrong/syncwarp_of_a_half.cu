// The mask names lanes that never come.
// launch: grid=1 block=32
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[32];
    s[t] = x[i];
    if (t < 16) __syncwarp();  // expect: SYNC
    else y[64 + t] = 1;
    __syncthreads();
    y[i] = s[31 - t];
}
