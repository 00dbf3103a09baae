// launch: grid=2 block=64 words=40
// Integer arithmetic, bit fields, byte and half-word dot products, 64-bit forms.
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned a = in[3 * i], b = in[3 * i + 1], c = in[3 * i + 2];
    const int sa = (int)a, sb = (int)b;
    const unsigned long long la = (unsigned long long)a << 32 | b, lb = (unsigned long long)c << 17 ^ a;
    unsigned* o = out + i * 40;
    o[0] = __popc(a) + __popcll(la);
    o[1] = __clz(sa) | __clzll(la) << 8;
    o[2] = __ffs(sa) | __ffsll(lb) << 8;
    o[3] = __brev(a) ^ (unsigned)(__brevll(la) >> 32);
    o[4] = __byte_perm(a, b, c);
    o[5] = __dp4a(sa, sb, (int)c);
    o[6] = __dp4a(a, b, c);
    o[7] = __dp2a_lo(sa, sb, (int)c);
    o[8] = __dp2a_hi(a, b, c);
    o[9] = __mulhi(sa, sb);
    o[10] = __umulhi(a, b);
    o[11] = (unsigned)(__umul64hi(la, lb) >> 7);
    o[12] = (unsigned)(__mul64hi((long long)la, (long long)lb) >> 9);
    o[13] = __mul24(sa, sb);
    o[14] = __umul24(a, b);
    o[15] = __funnelshift_l(a, b, c);
    o[16] = __funnelshift_r(a, b, c);
    o[17] = __funnelshift_lc(a, b, c & 63);
    o[18] = __funnelshift_rc(a, b, c & 63);
    o[19] = __sad(sa, sb, c);
    o[20] = __usad(a, b, c);
    o[21] = __hadd(sa, sb);
    o[22] = __urhadd(a, b);
    o[23] = sa / (sb | 1);
    o[24] = a % (b | 1);
    o[25] = (unsigned)(la / (lb | 1));
    o[26] = (unsigned)((long long)la % ((long long)(lb >> 20) | 1));
    o[27] = (a >> (c & 31)) ^ (unsigned)(sa >> (b & 31)) ^ (a << (b & 31));
    o[28] = (unsigned)(la >> (c & 63)) ^ (unsigned)((long long)lb >> (a & 63));
    o[29] = (a >> 7) & 0x3ff;
    o[30] = (a & 0xff00ff) | (b & ~c);
    o[31] = (a ^ b) & c;
    o[32] = __vadd2(a, b) ^ __vsub4(a, b);
    o[33] = __vabsdiffu4(a, b) + __vmaxs2(a, b) + __vsadu2(a, b);
    o[34] = __vcmpgtu4(a, b) ^ __vminu2(b, c);
    o[35] = min(sa, sb) ^ max(a, b);
    o[36] = (unsigned)min((long long)la, (long long)lb) ^ (unsigned)max(la, lb);
    o[37] = abs(sa) ^ (unsigned)llabs((long long)la);
    o[38] = (unsigned char)a * (signed char)b + (short)(a >> 16) * (unsigned short)c;
    o[39] = __fns(a, c & 31, (int)(b & 7) - 3);
}
