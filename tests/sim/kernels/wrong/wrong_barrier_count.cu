// The barrier is for more threads than come.
// launch: grid=1 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[64];
    s[t] = x[i];
    asm volatile("bar.sync 1, 96;" ::: "memory");  // expect: SYNC
    y[i] = s[63 - t];
}
