// launch: grid=2 block=64 words=32
// bfloat16: scalar, packed, conversions, comparisons.
// needs: 80
#include <cuda_bf16.h>
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned ua = in[3 * i], ub = in[3 * i + 1];
    const float f = ((int)in[3 * i + 2] >> 10) * 0.003f;
    const __nv_bfloat162 a = *reinterpret_cast<const __nv_bfloat162*>(&ua), b = *reinterpret_cast<const __nv_bfloat162*>(&ub);
    const __nv_bfloat16 x = __low2bfloat16(a), y = __high2bfloat16(b), z = __float2bfloat16(f);
    unsigned* o = out + i * 32;
#define B2(k, v) { const __nv_bfloat162 t = v; o[k] = *reinterpret_cast<const unsigned*>(&t); }
#define B(k, v) o[k] = __bfloat16_as_ushort(v);
    B2(0, __hadd2(a, b)) B2(1, __hsub2(a, b)) B2(2, __hmul2(a, b)) B2(3, __hfma2(a, b, b)) B2(4, __h2div(a, b)) B2(5, __hneg2(a)) B2(6, __habs2(a))
    B2(7, __hmin2(a, b)) B2(8, __hmax2(a, b)) B2(9, __hfma2_relu(a, b, a)) B2(10, __hlt2(a, b)) o[11] = __hblt2(a, b) | __hbne2(a, b) << 1; o[12] = __hlt2_mask(a, b);
    B(13, __hadd(x, y)) B(14, __hmul(x, z)) B(15, __hfma(x, y, z)) B(16, __hdiv(z, y)) B(17, hsqrt(__habs(z))) B(18, hexp(z)) B(19, hlog(__habs(z)))
    B(20, __float2bfloat16_rz(f)) B(21, __float2bfloat16_ru(f)) o[22] = __bfloat162int_rn(z); B(23, __int2bfloat16_rn((int)ua)) B(24, __double2bfloat16((double)f * 1.0001))
    o[25] = __float_as_uint(__bfloat162float(x)); B2(26, __floats2bfloat162_rn(f, -f)) B(27, __hmax_nan(x, y)) B(28, __uint2bfloat16_rz(ub)) o[29] = (unsigned)__bfloat162ll_rd(z);
    B(30, hfloor(z)) B(31, hrint(y))
}
