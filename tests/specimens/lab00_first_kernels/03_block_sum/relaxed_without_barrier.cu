// relaxed_without_barrier.cu: relaxed atomics may race, but they order nothing: right only because warps run by number.
// Entry:   block_sum(const float x[n] in, float sums[cdiv(n, 256)] out, int n)
// Launch:  block_sum block=(256) grid=(cdiv(n, 256))

#include <cuda/atomic>

constexpr auto RELAXED = cuda::std::memory_order_relaxed;
using Part = cuda::atomic_ref<float, cuda::thread_scope_block>;

extern "C" __global__ void block_sum(const float* __restrict__ x, float* __restrict__ sums, int n)
{
    __shared__ float partial[256];
    const int t = threadIdx.x;
    const int i = blockIdx.x * 256 + t;
    Part mine(partial[t]);
    mine.store(i < n ? x[i] : 0.0f, RELAXED);
    for (int half = 128; half > 0; half /= 2) {
        if (t < half) {
            Part other(partial[t + half]);
            mine.store(mine.load(RELAXED) + other.load(RELAXED), RELAXED);  // expect: RACE
        }
    }
    if (t == 0) {
        sums[blockIdx.x] = mine.load(RELAXED);
    }
}
