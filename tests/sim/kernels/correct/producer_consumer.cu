// Split barriers: one warp fills two buffers, the other empties them.
// launch: grid=2 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[2][32];
    const int lane = t % 32;
    if (t < 32) {
        for (int k = 0; k < 6; ++k) {
            asm volatile("bar.sync %0, 64;" :: "r"(3 + (k & 1)) : "memory");  // empty
            s[k & 1][lane] = x[(i + k * 32) % n];
            asm volatile("bar.arrive %0, 64;" :: "r"(1 + (k & 1)) : "memory");  // full
        }
    } else {
        float sum = 0;
        asm volatile("bar.arrive 3, 64;" ::: "memory");
        asm volatile("bar.arrive 4, 64;" ::: "memory");
        for (int k = 0; k < 6; ++k) {
            asm volatile("bar.sync %0, 64;" :: "r"(1 + (k & 1)) : "memory");
            sum += s[k & 1][31 - lane];
            if (k < 4) asm volatile("bar.arrive %0, 64;" :: "r"(3 + (k & 1)) : "memory");
        }
        y[i] = sum;
    }
}
