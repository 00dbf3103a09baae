// launch: grid=2 block=64 words=16 shared=64
// Special registers; clocks count steps.
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    extern __shared__ unsigned dynamic[];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned* o = out + i * 16;
#define READ(k, name) asm volatile("mov.u32 %0, %%" name ";" : "=r"(o[k]))
    READ(0, "smid"); READ(1, "nsmid"); READ(2, "warpid"); READ(3, "nwarpid"); READ(4, "dynamic_smem_size"); READ(5, "total_smem_size"); READ(6, "ctaid.x"); READ(7, "nctaid.z"); READ(8, "ntid.y");
    unsigned long long g; asm volatile("mov.u64 %0, %%gridid;" : "=l"(g)); o[9] = (unsigned)g;
    const long long before = clock64(); const unsigned short_before = clock();
    unsigned long long t0, t1; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t0));
    float x = in[i] & 7; for (int n = 0; n < 20; ++n) x = x * 1.5f + 1;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t1));
    o[10] = (clock64() >= before) + 2 * (clock() >= short_before) + 4 * (t1 >= t0); o[11] = __float_as_uint(x);
    o[12] = warpSize; if (threadIdx.x < 16) dynamic[threadIdx.x] = 1; READ(13, "tid.z"); o[14] = 0; o[15] = 7;
}
