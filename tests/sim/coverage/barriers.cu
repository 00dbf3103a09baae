// launch: grid=2 block=128 words=8
// Barriers that reduce, named barriers of some warps, split barriers.
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    __shared__ unsigned s[128];
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t, group = t / 64, n = t % 64;
    const unsigned x = in[i];
    unsigned* o = out + i * 8;
    o[0] = __syncthreads_count(x & 1); o[1] = __syncthreads_and(x > 3); o[2] = __syncthreads_or(x > 0xff000000);
    s[t] = x;
    asm volatile("bar.sync %0, 64;" :: "r"(group + 1) : "memory");  // each half by itself
    o[3] = s[group * 64 + 63 - n];
    asm volatile("barrier.sync %0, 64;" :: "r"(group + 1) : "memory");
    s[t] = x * 3;
    __syncthreads();
    o[4] = s[127 - t];
    __syncthreads();
    if (t < 64) {  // producers do not wait, consumers do
        s[t] = x + 5;
        asm volatile("bar.arrive 3, 128;" ::: "memory");
        o[5] = x;
    } else {
        asm volatile("bar.sync 3, 128;" ::: "memory");
        o[5] = s[127 - t];
    }
    unsigned count;
    asm volatile("{.reg .pred p; setp.gt.u32 p, %1, 100000; bar.red.popc.u32 %0, 4, 128, p;}" : "=r"(count) : "r"(x)); o[6] = count;
    asm volatile("barrier.sync.aligned 5;" ::: "memory"); o[7] = t;
}
