// Each group has its barrier, but they use one buffer.
// launch: grid=1 block=128
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[64];
    const int group = t / 64;
    s[t % 64] = x[i];  // expect: RACE
    asm volatile("bar.sync %0, 64;" :: "r"(group + 1) : "memory");
    y[i] = s[63 - t % 64];  // expect: RACE
}
