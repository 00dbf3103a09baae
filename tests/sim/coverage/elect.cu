// launch: grid=2 block=64 words=3
// elect.sync: one lane of a mask leads.
// needs: 90
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned leader, is;
    asm volatile("{.reg .pred p; elect.sync %0|p, -1; selp.u32 %1, 1, 0, p;}" : "=r"(leader), "=r"(is));
    out[i * 3] = leader; out[i * 3 + 1] = is;
    if (i & 1) { asm volatile("{.reg .pred p; elect.sync %0|p, 0xaaaaaaaa; selp.u32 %1, 1, 0, p;}" : "=r"(leader), "=r"(is)); out[i * 3 + 2] = leader * 2 + is; }
    else out[i * 3 + 2] = 9;
}
