// Producer and consumer name different barriers.
// launch: grid=1 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[32];
    if (t < 32) {
        s[t] = x[i];
        asm volatile("bar.arrive 1, 64;" ::: "memory");
    } else {
        asm volatile("bar.sync 2, 64;" ::: "memory");  // expect: SYNC
        y[i] = s[t - 32];
    }
}
