// launch: grid=2 block=64 words=40
// Single precision with its rounding modes and fast variants that are exact, conversions included.
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float a = __int_as_float(in[3 * i]), b = __int_as_float(in[3 * i + 1]), c = ((int)in[3 * i + 2] >> 12) * 0.37f;
    unsigned* o = out + i * 40;
#define PUT(k, x) o[k] = __float_as_uint(x)
    PUT(0, __fadd_rn(a, b)); PUT(1, __fadd_rz(a, c)); PUT(2, __fadd_ru(a, c)); PUT(3, __fadd_rd(b, c));
    PUT(4, __fmul_rn(a, b)); PUT(5, __fmul_rz(a, c)); PUT(6, __fmul_ru(a, c)); PUT(7, __fmul_rd(b, c));
    PUT(8, __fmaf_rn(a, b, c)); PUT(9, __fmaf_rz(a, c, b)); PUT(10, __fmaf_ru(a, c, b)); PUT(11, __fmaf_rd(a, c, b));
    PUT(12, __fdiv_rn(a, c)); PUT(13, __fdiv_rz(c, b)); PUT(14, __fdiv_ru(a, c)); PUT(15, __fdiv_rd(a, c));
    PUT(16, __fsqrt_rn(fabsf(a))); PUT(17, __fsqrt_rz(fabsf(c))); PUT(18, __frcp_rn(a)); PUT(19, __frcp_ru(c));
    PUT(20, fminf(a, b)); PUT(21, fmaxf(a, c)); PUT(22, fabsf(a) - c); PUT(23, copysignf(a, c));
    PUT(24, __saturatef(a)); PUT(25, floorf(c)); PUT(26, ceilf(c)); PUT(27, truncf(c)); PUT(28, rintf(c)); PUT(29, roundf(c));
    o[30] = __float2int_rn(c); o[31] = __float2uint_rz(a); o[32] = (unsigned)__float2ll_rd(c); o[33] = (unsigned)__float2ull_ru(fabsf(b));
    PUT(34, __int2float_rz((int)in[3 * i])); PUT(35, __uint2float_ru(in[3 * i])); PUT(36, __ll2float_rd((long long)in[3 * i] * in[3 * i + 1]));
    o[37] = (a < b) | (a <= c) << 1 | (a != b) << 2 | isnan(a) << 3 | isinf(b) << 4 | signbit(c) << 5 | isfinite(a) << 6;
    PUT(38, fmodf(c, 7.5f)); PUT(39, nextafterf(c, a));
}
