// launch: grid=2 block=64 words=16
// Numbers of 8 bits, e4m3 and e5m2: conversions both ways, saturating, through <cuda_fp8.h> and by themselves.
// needs: 89
#include <cuda_fp8.h>
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    const unsigned special[] = {0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00001, 0x43E80000, 0x43E7FFFF, 0xC3F00000,
                                0x47600000, 0x47700000, 0x3B000000, 0xBB000001, 0x3AFFFFFF, 0x3C700000, 0x37800000, 0x37C00000};
    // numbers of the size that matters, special ones, and any bits
    const unsigned bits = i < 16 ? special[i] : i < 32 ? in[i] : (in[i] & 0x80FFFFFF) | (100u + in[i + 200] % 48u) << 23;
    const float a = __uint_as_float(bits), c = __uint_as_float((in[i + 128] & 0x807FFFFF) | (110u + in[i + 64] % 30u) << 23);
    const unsigned pair = (2 * i & 0xFF) | (2 * i + 1 & 0xFF) << 8, half = in[i + 32];
    unsigned* o = out + i * 16;
    o[0] = __nv_fp8_e4m3(a).__x; o[1] = __nv_fp8_e5m2(a).__x;
    o[2] = __nv_fp8x2_e4m3(make_float2(a, c)).__x; o[3] = __nv_fp8x2_e5m2(make_float2(c, a)).__x;
    o[4] = __nv_cvt_float2_to_fp8x2(make_float2(a, c), __NV_NOSAT, __NV_E4M3);
    const __half2_raw h = __nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3), g = __nv_cvt_fp8x2_to_halfraw2(pair, __NV_E5M2);
    o[5] = h.x | h.y << 16; o[6] = g.x | g.y << 16;
    o[7] = __nv_cvt_halfraw2_to_fp8x2(h, __NV_SATFINITE, __NV_E5M2); o[8] = __nv_cvt_halfraw2_to_fp8x2(g, __NV_SATFINITE, __NV_E4M3);
    o[9] = __nv_cvt_double_to_fp8(a == a ? (double)a : 0.0, __NV_SATFINITE, __NV_E4M3);
    __nv_fp8_e4m3 q;
    q.__x = pair & 0xFF;
    o[10] = __float_as_uint((float)q);
    unsigned short s;
    unsigned r;
    asm("cvt.rn.satfinite.relu.e4m3x2.f32 %0, %1, %2;" : "=h"(s) : "f"(a), "f"(c)); o[11] = s;
    asm("cvt.rn.satfinite.relu.e5m2x2.f16x2 %0, %1;" : "=h"(s) : "r"(half)); o[12] = s;
    asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(s) : "r"(half)); o[13] = s;
    asm("cvt.rn.relu.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((unsigned short)pair)); o[14] = r;
    asm("cvt.rn.relu.f16x2.e5m2x2 %0, %1;" : "=r"(r) : "h"((unsigned short)pair)); o[15] = r;
}
