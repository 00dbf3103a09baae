// launch: grid=2 block=64 words=24
// cvt in forms that only inline assembly reaches: tf32, packed halves, relu, saturation; min and max with xorsign.
// needs: 90
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float a = __uint_as_float(in[3 * i]), b = ((int)in[3 * i + 1] >> 8) * 0.001f;
    const unsigned h = in[3 * i + 2], g = in[3 * i + 1];
    unsigned* o = out + i * 24;
    unsigned r;
    float f;
#define ONE(k, text) asm(text " %0, %1;" : "=r"(r) : "f"(a)); o[k] = r
#define TWO(k, text) asm(text " %0, %1, %2;" : "=r"(r) : "f"(a), "f"(b)); o[k] = r
    ONE(0, "cvt.rna.tf32.f32"); ONE(1, "cvt.rn.tf32.f32"); ONE(2, "cvt.rz.tf32.f32"); ONE(3, "cvt.rn.relu.tf32.f32");
    TWO(4, "cvt.rn.f16x2.f32"); TWO(5, "cvt.rz.f16x2.f32"); TWO(6, "cvt.rn.relu.f16x2.f32"); TWO(7, "cvt.rn.bf16x2.f32"); TWO(8, "cvt.rz.relu.bf16x2.f32");
    asm("min.xorsign.abs.f32 %0, %1, %2;" : "=f"(f) : "f"(a), "f"(b)); o[9] = __float_as_uint(f);
    asm("max.NaN.xorsign.abs.f32 %0, %1, %2;" : "=f"(f) : "f"(a), "f"(b)); o[10] = __float_as_uint(f);
    asm("max.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(r) : "r"(h), "r"(g)); o[11] = r;
    asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(r) : "r"(h), "r"(g)); o[12] = r;
    asm("{.reg .pred p, q; setp.lt.f16x2 p|q, %1, %2; selp.u32 %0, 1, 0, p; @q add.u32 %0, %0, 2;}" : "=r"(r) : "r"(h), "r"(g)); o[13] = r;
    asm("{.reg .pred p, q, s; setp.eq.u32 s, %1, %2; setp.geu.xor.f16x2 p|q, %1, %2, s; selp.u32 %0, 1, 0, p; @q add.u32 %0, %0, 2;}" : "=r"(r) : "r"(h), "r"(g)); o[14] = r;
    asm("fma.rn.relu.bf16x2 %0, %1, %2, %1;" : "=r"(r) : "r"(h), "r"(g)); o[15] = r;
    asm("cvt.sat.u8.s32 %0, %1;" : "=r"(r) : "r"(h)); o[16] = r;
    asm("{.reg .b16 t; cvt.rn.bf16.f16 t, %1; cvt.u32.u16 %0, t;}" : "=r"(r) : "h"((unsigned short)h)); o[22] = r;
    asm("{.reg .s16 t; cvt.rni.s16.bf16 t, %1; cvt.s32.s16 %0, t;}" : "=r"(r) : "h"((unsigned short)h)); o[23] = r;
}
