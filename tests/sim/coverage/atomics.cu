// launch: grid=2 block=64 words=4 zeroed
// Every atomic of every type, on global and shared memory, and CAS loops.
// needs: 80
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__device__ unsigned g32[16]; __device__ int s32[16]; __device__ unsigned long long g64[16]; __device__ float gf[4]; __device__ double gd[4];
__device__ __half2 gh2[2]; __device__ __nv_bfloat162 gb2[2]; __device__ __half gh[2]; __device__ unsigned short g16[2];
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    __shared__ unsigned s[16]; __shared__ unsigned long long w[8]; __shared__ float f; __shared__ double d;
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (t < 16) s[t] = 0; if (t < 8) w[t] = 0; if (t == 0) f = 0, d = 0;
    __syncthreads();
    const unsigned x = in[i], y = in[i + 1]; const unsigned long long l = (unsigned long long)x << 20 ^ y;
    unsigned r = 0;
    r ^= atomicAdd(&g32[0], x); r ^= atomicSub(&g32[1], x); r ^= atomicExch(&g32[2], x); r ^= atomicMin(&g32[3], x); r ^= atomicMax(&g32[4], x);
    r ^= atomicInc(&g32[5], 50); r ^= atomicDec(&g32[6], 50); r ^= atomicAnd(&g32[7], x); r ^= atomicOr(&g32[8], x & 0x11111111); r ^= atomicXor(&g32[9], x); r ^= atomicCAS(&g32[10], 0u, x);
    r ^= atomicAdd(&s32[0], (int)x); r ^= atomicMin(&s32[1], (int)x); r ^= atomicMax(&s32[2], (int)x);
    unsigned long long q = 0;
    q ^= atomicAdd(&g64[0], l); q ^= atomicExch(&g64[1], l); q ^= atomicMin(&g64[2], l); q ^= atomicMax(&g64[3], l); q ^= atomicAnd(&g64[4], l); q ^= atomicOr(&g64[5], l); q ^= atomicXor(&g64[6], l); q ^= atomicCAS(&g64[7], 0ull, l);
    q ^= atomicMin((long long*)&g64[8], (long long)l); q ^= atomicMax((long long*)&g64[9], -(long long)l);
    r ^= __float_as_uint(atomicAdd(&gf[0], (int)x * 1e-3f)); q ^= __double_as_longlong(atomicAdd(&gd[0], (int)x * 1e-3)); r ^= __float_as_uint(atomicExch(&gf[1], (float)x));
    const __half2 h = atomicAdd(&gh2[0], __floats2half2_rn(x % 7, y % 5)); r ^= *(const unsigned*)&h;
    const __nv_bfloat162 b = atomicAdd(&gb2[0], __floats2bfloat162_rn(x % 7, y % 5)); r ^= *(const unsigned*)&b;
    r ^= __half_as_ushort(atomicAdd(&gh[0], __float2half(x % 3))); r ^= atomicCAS(&g16[0], (unsigned short)0, (unsigned short)x);
    r ^= atomicAdd(&s[0], x); r ^= atomicExch(&s[2], x); r ^= atomicMax(&s[4], x); r ^= atomicInc(&s[5], 50); r ^= atomicCAS(&s[10], 0u, x);
    q ^= atomicAdd(&w[0], l); q ^= atomicCAS(&w[7], 0ull, l);
    atomicAdd(&f, x % 11); atomicAdd(&d, x % 13); atomicOr(&s[8], x); atomicAdd_block(&s[9], 1); atomicAdd_system(&g32[11], 1);
    unsigned old = g32[12], assumed;  // the maximum of a hash, by compare and swap
    do { assumed = old; old = atomicCAS(&g32[12], assumed, assumed * 31 + x % 3); } while (old != assumed);
    __threadfence(); __threadfence_block(); __threadfence_system();
    __syncthreads();
    unsigned* o = out + i * 4;
    o[0] = r; o[1] = (unsigned)(q ^ q >> 32); o[2] = s[t & 15] ^ __float_as_uint(f); o[3] = (unsigned)w[t & 7] ^ (unsigned)__double_as_longlong(d);
}
