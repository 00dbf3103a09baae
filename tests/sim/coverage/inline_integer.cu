// launch: grid=2 block=64 words=28
// Forms that the compiler seldom picks, through inline assembly.
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned a = in[3 * i], b = in[3 * i + 1], c = in[3 * i + 2];
    const unsigned long long la = (unsigned long long)a << 32 | b, lb = (unsigned long long)c << 17 ^ a;
    unsigned* o = out + i * 28;
    unsigned r;
    unsigned long long w;
#define ABC(k, text) asm(text " %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); o[k] = r
    ABC(0, "mad24.lo.u32"); ABC(1, "mad24.hi.s32"); ABC(2, "bfe.u32"); ABC(3, "bfe.s32");
    ABC(4, "prmt.b32.f4e"); ABC(5, "prmt.b32.ecl"); ABC(6, "prmt.b32.rc16"); ABC(7, "dp4a.u32.s32"); ABC(8, "dp4a.s32.u32");
    ABC(9, "dp2a.lo.u32.s32"); ABC(10, "dp2a.hi.s32.u32"); ABC(11, "mad.hi.s32"); ABC(12, "shf.l.wrap.b32"); ABC(13, "sad.s32");
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(a), "r"(b), "r"(c & 31), "r"(b & 31)); o[14] = r;
    asm("bfe.s64 %0, %1, %2, %3;" : "=l"(w) : "l"(la), "r"(c & 63), "r"(b & 63)); o[15] = (unsigned)(w ^ w >> 32);
    asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); o[16] = r;
    asm("bmsk.clamp.b32 %0, %1, %2;" : "=r"(r) : "r"(a & 63), "r"(b & 63)); o[17] = r;
    asm("szext.wrap.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); o[18] = r;
    asm("{.reg .u32 t; add.cc.u32 t, %1, %2; addc.cc.u32 t, t, %3; addc.u32 %0, t, 0;}" : "=r"(r) : "r"(a), "r"(b), "r"(c)); o[19] = r;
    asm("bfind.shiftamt.u32 %0, %1;" : "=r"(r) : "r"(a)); o[20] = r;
    asm("cnot.b32 %0, %1;" : "=r"(r) : "r"(a & 1)); o[21] = r;
    asm("slct.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); o[22] = r;
    asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(w) : "r"(a), "r"(b), "l"(lb)); o[23] = (unsigned)(w ^ w >> 32);
    ABC(24, "vabsdiff2.u32.u32.u32"); ABC(25, "vabsdiff2.s32.s32.s32.sat"); ABC(26, "vabsdiff2.u32.s32.u32.add"); ABC(27, "vabsdiff4.s32.u32.s32.sat");
}
