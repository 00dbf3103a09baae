// The producer does not wait until the buffer is empty.
// launch: grid=1 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[32];
    const int lane = t % 32;
    for (int k = 1; k < 4; ++k) {
        if (t < 32) {
            s[lane] = x[i + k];  // expect: RACE
            asm volatile("bar.arrive %0, 64;" :: "r"(k) : "memory");
        } else {
            asm volatile("bar.sync %0, 64;" :: "r"(k) : "memory");
            y[i] += s[31 - lane];  // expect: RACE
        }
    }
}
