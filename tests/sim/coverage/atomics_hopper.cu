// launch: grid=2 block=64 words=4 zeroed
// Vector reductions of sm_90, scoped reductions.
// needs: 90
__device__ __align__(16) float4 total; __device__ float2 pair; __device__ unsigned word;
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float x = in[i] % 17;
    float a, b, c, d;
    asm volatile("atom.global.add.v4.f32 {%0, %1, %2, %3}, [%4], {%5, %5, %6, %6};" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(&total), "f"(x), "f"(x + 1) : "memory");
    asm volatile("red.global.add.v2.f32 [%0], {%1, %1};" :: "l"(&pair), "f"(x) : "memory");
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" :: "l"(&word), "r"(in[i]) : "memory");
    asm volatile("red.release.gpu.global.max.u32 [%0], %1;" :: "l"(&word), "r"(in[i]) : "memory");
    unsigned* o = out + i * 4;
    o[0] = __float_as_uint(a); o[1] = __float_as_uint(b); o[2] = __float_as_uint(c); o[3] = __float_as_uint(d);
}
