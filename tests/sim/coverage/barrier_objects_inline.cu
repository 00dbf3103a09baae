// launch: grid=2 block=64 words=8
// Barrier objects by their instructions and by the primitives of <cuda_awbarrier_primitives.h>.
// needs: 80
#include <cuda_awbarrier_primitives.h>
#include <cuda_pipeline.h>
using u64 = unsigned long long;
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ bool over(u64* b, unsigned parity)
{
    unsigned yes;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(yes) : "r"(at(b)), "r"(parity) : "memory");
    return yes;
}
__device__ unsigned pending(u64 state)
{
    unsigned n;
    asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(n) : "l"(state));
    return n;
}
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    __shared__ u64 gate[3];
    __shared__ __mbarrier_t simple;
    __shared__ __align__(16) unsigned s[4][64];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    unsigned* o = out + i * 8;
    if (t == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 192;" :: "r"(at(&gate[0])) : "memory");  // three for every thread
        asm volatile("mbarrier.init.b64 [%0], 64;" :: "l"(&gate[1]) : "memory");
        asm volatile("mbarrier.init.shared.b64 [%0], 128;" :: "r"(at(&gate[2])) : "memory");
        __mbarrier_init(&simple, 64);
    }
    __syncthreads();
    // an arrival with a count, one of those that must not end a phase, and what is missing in front of each
    s[0][t] = in[i];
    u64 first, second;
    asm volatile("mbarrier.arrive.noComplete.shared.b64 %0, [%1], 1;" : "=l"(first) : "r"(at(&gate[0])) : "memory");
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1], 2;" : "=l"(second) : "r"(at(&gate[0])) : "memory");
    o[0] = pending(first); o[1] = pending(second);
    while (!over(&gate[0], 0)) {}
    o[2] = s[0][63 - t];
    // every second thread leaves after the first phase
    u64 token;
    s[1][t] = in[i + 5];
    if (t & 1) asm volatile("mbarrier.arrive_drop.shared.b64 %0, [%1];" : "=l"(token) : "r"(at(&gate[1])) : "memory");
    else asm volatile("mbarrier.arrive.b64 %0, [%1];" : "=l"(token) : "l"(&gate[1]) : "memory");
    while (!over(&gate[1], 0)) {}
    unsigned sum = s[1][(t + 1) & 63];
    if (!(t & 1)) {
        s[3][t] = sum;
        asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at(&gate[1])) : "memory");
        while (!over(&gate[1], 1)) {}
        sum ^= s[3][(t + 2) & 63];
    }
    o[3] = sum;
    // copies that the object waits for: counted from the start, or announced
    __pipeline_memcpy_async(&s[2][t], in + i + 9, 4);
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(at(&gate[2])) : "memory");
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at(&gate[2])) : "memory");
    while (!over(&gate[2], 0)) {}
    o[4] = s[2][(t + 17) & 63];
    const __mbarrier_token_t early = __mbarrier_arrive(&simple);
    while (!__mbarrier_test_wait(&simple, early)) {}
    if (t < 16) __pipeline_memcpy_async(&s[2][t * 4], in + 64 * blockIdx.x + t * 4, 16);
    __pipeline_arrive_on(&simple);
    const __mbarrier_token_t late = __mbarrier_arrive_and_drop(&simple);
    while (!__mbarrier_test_wait(&simple, late)) {}
    o[5] = s[2][t ^ 21];
    o[6] = __mbarrier_token_pending_count(early) == 64 - t && __mbarrier_maximum_count() == (1 << 20) - 1;
    __syncthreads();
    if (t == 0) { __mbarrier_inval(&simple); asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(at(gate)) : "memory"); }
    o[7] = t;
}
