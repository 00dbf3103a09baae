// launch: grid=2 block=64 words=24
// Shuffles with masks and widths, votes, match, reductions over a warp, special registers of lanes.
// needs: 80
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t, lane = t & 31;
    const unsigned x = in[i];
    unsigned* o = out + i * 24;
    o[0] = __shfl_sync(~0u, x, x); o[1] = __shfl_up_sync(~0u, x, 3); o[2] = __shfl_down_sync(~0u, x, 5); o[3] = __shfl_xor_sync(~0u, x, 9);
    o[4] = __shfl_sync(~0u, x, 2, 8); o[5] = __shfl_up_sync(~0u, x, 1, 4); o[6] = __shfl_down_sync(~0u, x, 2, 16); o[7] = __shfl_xor_sync(~0u, x, 1, 2);
    const double d = __shfl_xor_sync(~0u, (double)x, 4); o[8] = (unsigned)__double_as_longlong(d); o[9] = (unsigned)(__shfl_sync(~0u, (unsigned long long)x << 13, lane ^ 1) >> 7);
    o[10] = __all_sync(~0u, x > 5) | __any_sync(~0u, x > 0xf0000000) << 1 | __uni_sync(~0u, x & 1) << 2; o[11] = __ballot_sync(~0u, x & 2);
    o[12] = __match_any_sync(~0u, x & 3); int all; o[13] = __match_all_sync(~0u, x >> 31, &all) ^ all; o[14] = __match_any_sync(~0u, (unsigned long long)(x & 1) << 40);
    o[15] = __reduce_add_sync(~0u, x) ^ __reduce_xor_sync(~0u, x); o[16] = __reduce_min_sync(~0u, (int)x) ^ __reduce_max_sync(~0u, x); o[17] = __reduce_or_sync(~0u, x & 0x55) ^ __reduce_and_sync(~0u, x | 7);
    o[18] = __activemask();
    unsigned r = 0;
    if (lane & 4) { const unsigned m = 0xf0f0f0f0; r = __shfl_sync(m, x, 4 + (lane & 3)) + __ballot_sync(m, x & 1) + __reduce_add_sync(m, x) + __activemask() * 3; }
    else { const unsigned m = 0x0f0f0f0f; r = __shfl_xor_sync(m, x, 1) ^ __match_any_sync(m, x & 1) ^ __reduce_max_sync(m, x); }
    __syncwarp();
    o[19] = r;
    unsigned e, le, lt, ge, gt; asm("mov.u32 %0, %%lanemask_eq;" : "=r"(e)); asm("mov.u32 %0, %%lanemask_le;" : "=r"(le)); asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lt)); asm("mov.u32 %0, %%lanemask_ge;" : "=r"(ge)); asm("mov.u32 %0, %%lanemask_gt;" : "=r"(gt));
    o[20] = e ^ le * 3 ^ lt * 5 ^ ge * 7 ^ gt * 11; asm("mov.u32 %0, %%laneid;" : "=r"(o[21])); asm("mov.u32 %0, %%warpid;" : "=r"(o[22])); o[23] = lane;
}
