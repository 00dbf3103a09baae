// The barrier is for one warp, the data come from the other.
// launch: grid=1 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[64];
    s[t] = x[i];  // expect: RACE
    asm volatile("bar.sync 1, 32;" ::: "memory");
    y[i] = s[63 - t];  // expect: RACE
}
