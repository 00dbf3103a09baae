// Two groups of two warps, each with a barrier of its own.
// launch: grid=2 block=128
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[128];
    const int group = t / 64;
    for (int k = 0; k < 3 + group * 2; ++k) {
        s[t] = x[(i + k) % n];
        asm volatile("bar.sync %0, 64;" :: "r"(group + 1) : "memory");
        y[i] += s[group * 64 + 63 - t % 64];
        asm volatile("bar.sync %0, 64;" :: "r"(group + 1) : "memory");
    }
}
