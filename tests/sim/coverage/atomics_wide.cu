// launch: grid=2 block=64 words=16 zeroed
// Atomics, loads and stores of 16 bytes.
// needs: 90
// cccl: 13.2 (older headers do not compile cuda::atomic_ref of 16 bytes)
#include <cuda/atomic>
struct __align__(16) Wide { unsigned long long low, high; };
__device__ Wide taken[64], last, sum;
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    __shared__ Wide mine[64];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    const Wide own = {(unsigned long long)in[i] << 32 | t + 1, in[i + 1]}, none = {0, 0};
    unsigned* o = out + i * 16;
    mine[t] = none;
    __syncthreads();
    // the first to come takes a place; places are shared by pairs of threads and by both blocks
    const Wide before = atomicCAS(&taken[t / 2], none, own);
    o[0] = before.low; o[1] = before.low >> 32; o[2] = before.high;
    const Wide previous = atomicExch(&last, own);
    o[3] = previous.low; o[4] = previous.low >> 32; o[5] = previous.high;
    const Wide empty = atomicCAS(&mine[t ^ 1], none, own);
    __syncthreads();
    o[6] = empty.low | empty.high; o[7] = mine[t].low; o[8] = mine[t].high;
    // a sum of both halves by compare-and-swap
    cuda::atomic_ref<Wide, cuda::thread_scope_device> total(sum);
    Wide expected = total.load(cuda::memory_order_relaxed), wanted;
    do wanted = Wide{expected.low + t, expected.high ^ in[i]};
    while (!total.compare_exchange_strong(expected, wanted, cuda::memory_order_relaxed));
    o[9] = wanted.low; o[10] = wanted.high;
    asm volatile("{ .reg .b128 w; .reg .u64 a; cvta.shared.u64 a, %2; ld.b128 w, [a]; mov.b128 {%0, %1}, w; st.b128 [a], w; }"
                 : "=l"(expected.low), "=l"(expected.high) : "l"(__cvta_generic_to_shared(&mine[t])) : "memory");
    o[11] = expected.low ^ expected.high;
}
