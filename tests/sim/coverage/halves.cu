// launch: grid=2 block=64 words=40
// Half precision: scalar, packed, conversions, comparisons, the math functions.
#include <cuda_fp16.h>
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned ua = in[3 * i], ub = in[3 * i + 1];
    const float f = ((int)in[3 * i + 2] >> 10) * 0.003f;
    const __half2 a = *reinterpret_cast<const __half2*>(&ua), b = *reinterpret_cast<const __half2*>(&ub);
    const __half x = __low2half(a), y = __high2half(b), z = __float2half(f);
    unsigned* o = out + i * 40;
#define H2(k, v) { const __half2 t = v; o[k] = *reinterpret_cast<const unsigned*>(&t); }
#define H(k, v) o[k] = __half_as_ushort(v);
    H2(0, __hadd2(a, b)) H2(1, __hsub2(a, b)) H2(2, __hmul2(a, b)) H2(3, __hfma2(a, b, b)) H2(4, __h2div(a, b)) H2(5, __hneg2(a)) H2(6, __habs2(a))
    H2(7, __hmin2(a, b)) H2(8, __hmax2(a, b)) H2(9, __hfma2_relu(a, b, a)) H2(10, __hadd2_sat(a, b)) H2(11, __hmin2_nan(a, b))
    H2(12, __hlt2(a, b)) H2(13, __hgeu2(a, b)) o[14] = __hblt2(a, b) | __hbne2(a, b) << 1 | __hbequ2(a, a) << 2; o[15] = __hlt2_mask(a, b) ^ __hne2_mask(a, b);
    H(16, __hadd(x, y)) H(17, __hmul(x, z)) H(18, __hfma(x, y, z)) H(19, __hdiv(z, y)) H(20, hsqrt(__habs(z))) H(21, hrsqrt(__habs(z))) H(22, hexp(z)) H(23, hlog(__habs(z)))
    H(24, hsin(z)) H(25, hcos(z)) H(26, hexp2(z)) H(27, hfloor(z)) H(28, hrint(z)) H(29, htrunc(y)) H(30, __float2half_rz(f)) H(31, __float2half_ru(f)) H(32, __float2half_rd(f))
    o[33] = __half2int_rn(z); o[34] = __half2uint_rz(__habs(z)); H(35, __int2half_rn((int)ua)) H(36, __uint2half_rz(ub)) H(37, __double2half((double)f * 1.0001)) o[38] = __float_as_uint(__half2float(x));
    H2(39, __floats2half2_rn(f, -f))
}
