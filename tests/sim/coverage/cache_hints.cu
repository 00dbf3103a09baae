// launch: grid=2 block=64 words=10
// Cache policies, prefetches, discards and hints: they change nothing but speed.
// needs: 80
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned* o = out + i * 10;
    unsigned r, s;
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("ld.global.L2::cache_hint.u32 %0, [%1], %2;" : "=r"(r) : "l"(in + i), "l"(policy)); o[0] = r;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.u32 %0, [%1];" : "=r"(r) : "l"(in + i)); o[1] = r;
    asm volatile("ld.global.nc.L1::evict_last.v2.u32 {%0, %1}, [%2];" : "=r"(r), "=r"(s) : "l"(in + (i & ~1))); o[2] = r ^ s;
    asm volatile("st.global.L1::no_allocate.u32 [%0], %1;" :: "l"(o + 3), "r"(r));
    asm volatile("createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %0, [%1], 64, 128;" : "=l"(policy) : "l"(in));
    asm volatile("st.global.L2::cache_hint.u32 [%0], %1, %2;" :: "l"(o + 4), "r"(r), "l"(policy));
    asm volatile("prefetch.global.L2 [%0];" :: "l"(in + i));
    asm volatile("prefetch.global.L2::evict_last [%0];" :: "l"(in + i));
    asm volatile("prefetchu.L1 [%0];" :: "l"(in + i));
    asm volatile("applypriority.global.L2::evict_normal [%0], 128;" :: "l"(in));
    asm volatile("pmevent 3;");
    asm volatile("nanosleep.u32 20;");
    asm volatile("ld.weak.global.cg.u32 %0, [%1];" : "=r"(r) : "l"(in + i)); o[5] = r;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(r) : "l"(in + i)); o[6] = r;
    asm volatile("ld.acquire.cta.global.u32 %0, [%1];" : "=r"(r) : "l"(in + i)); o[7] = r;
    asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(o + 8), "r"(s) : "memory");
    asm volatile("createpolicy.cvt.L2.b64 %0, 0x10f0000000000000;" : "=l"(policy)); o[9] = s;
}
