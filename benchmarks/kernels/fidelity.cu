// What fidelity.py runs beside access patterns: atomics, divergence, warps, packed arithmetic, memory spaces.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define AT const int i = blockIdx.x * blockDim.x + threadIdx.x
extern "C" __global__ void histogram(const unsigned* x, unsigned* y) { AT; atomicAdd(&y[x[i] % 64], 1u); }
extern "C" __global__ void histogram_shared(const unsigned* x, unsigned* y) {
    __shared__ unsigned s[64];
    if (threadIdx.x < 64) s[threadIdx.x] = 0;
    __syncthreads();
    AT;
    atomicAdd(&s[x[i] % 64], 1u);
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(&y[threadIdx.x], s[threadIdx.x]);
}
extern "C" __global__ void sum_float(const unsigned* x, float* y) { AT; atomicAdd(&y[i % 8], (x[i] % 1000) * 0.001f); }
extern "C" __global__ void extremes(const unsigned* x, unsigned* y) {
    AT; atomicMax(&y[0], x[i]); atomicMin((int*)&y[1], (int)x[i]); atomicOr(&y[2], x[i]); atomicXor(&y[3], x[i]);
}
extern "C" __global__ void add_by_cas(const unsigned* x, unsigned* y) {
    AT;
    unsigned old = atomicAdd(&y[i % 16], 0u), seen;
    do { seen = old; old = atomicCAS(&y[i % 16], seen, seen + x[i] % 7); } while (old != seen);
}
extern "C" __global__ void collatz(const unsigned* x, unsigned* y) {
    AT;
    unsigned n = x[i] % 5000 + 1, steps = 0;
    while (n != 1) { n = n & 1 ? 3 * n + 1 : n / 2; ++steps; }
    y[i] = steps;
}
extern "C" __global__ void branches(const unsigned* x, unsigned* y) {
    AT;
    unsigned v = x[i], r = 0;
    if (v & 1) { r = v * 3; if (v & 2) r ^= 77; else r += x[(i + 5) % 512]; } else if (v & 4) r = v / 5;
    y[i] = r;
}
extern "C" __global__ void leaves_early(const unsigned* x, unsigned* y) {
    AT;
    if (x[i] % 3 == 0) return;
    unsigned r = 0;
    for (int k = 0; k < 20; ++k) { if (x[(i + k) % 512] % 5 == 0) continue; if (x[(i + k) % 512] % 11 == 1) break; r += k; }
    y[i] = r;
}
extern "C" __global__ void switches(const unsigned* x, unsigned* y) {
    AT;
    switch (x[i] % 6) { case 0: y[i] = 1; break; case 1: y[i] = x[i] * 7; break; case 2: y[i] = __popc(x[i]); break;
        case 3: y[i] = __clz(x[i]); break; case 4: y[i] = __brev(x[i]); break; default: y[i] = x[i] >> 3; }
}
extern "C" __global__ void whole_warps(const unsigned* x, unsigned* y) { AT; if (threadIdx.x < 64) y[i] = x[i] * 3; else y[i] = x[i] / 3; }
extern "C" __global__ void warp_scan(const unsigned* x, unsigned* y) {
    AT;
    unsigned v = x[i];
    for (int d = 1; d < 32; d *= 2) { unsigned o = __shfl_up_sync(~0u, v, d); if ((threadIdx.x & 31) >= d) v += o; }
    y[i] = v;
}
extern "C" __global__ void votes(const unsigned* x, unsigned* y) { AT; y[i] = __ballot_sync(~0u, x[i] & 1) ^ __any_sync(~0u, x[i] % 97 == 0) ^ __match_any_sync(~0u, x[i] % 4); }
extern "C" __global__ void half_math(const unsigned* x, unsigned* y) {
    AT;
    __half2 a = __floats2half2_rn(x[i] % 100 * 0.1f, x[i] % 37 * 0.3f), b = __float2half2_rn(1.3f);
    __half2 r = __hfma2(a, b, __hadd2(a, b));
    y[i] = *reinterpret_cast<unsigned*>(&r);
}
extern "C" __global__ void bfloat_math(const unsigned* x, unsigned* y) {
    AT;
    __nv_bfloat162 a = __floats2bfloat162_rn(x[i] % 100 * 0.1f, x[i] % 37 * 0.3f), b = __float2bfloat162_rn(1.3f);
    __nv_bfloat162 r = __hfma2(a, b, __hmul2(a, b));
    y[i] = *reinterpret_cast<unsigned*>(&r);
}
extern "C" __global__ void bytes(const unsigned* x, unsigned* y) { AT; y[i] = __dp4a((int)x[i], (int)x[(i + 1) % 512], 5) + __byte_perm(x[i], x[(i + 3) % 512], 0x5140) + __mulhi((int)x[i], 77777); }
extern "C" __global__ void local_array(const unsigned* x, unsigned* y) {
    AT;
    unsigned a[16];
    for (int k = 0; k < 16; ++k) a[k] = x[(i + k) % 512];
    y[i] = a[x[i] % 16] + a[(x[i] >> 4) % 16];
}
__constant__ unsigned table[64] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
extern "C" __global__ void constants(const unsigned* x, unsigned* y) { AT; y[i] = table[x[i] % 16] + table[blockIdx.x]; }
extern "C" __global__ void reduce_tree(const unsigned* x, unsigned* y) {
    __shared__ unsigned s[256];
    AT;
    s[threadIdx.x] = x[i];
    __syncthreads();
    for (int d = 128; d > 0; d /= 2) { if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d]; __syncthreads(); }
    if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
extern "C" __global__ void reduce_interleaved(const unsigned* x, unsigned* y) {
    __shared__ unsigned s[256];
    AT;
    s[threadIdx.x] = x[i];
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) { if (threadIdx.x % (2 * d) == 0) s[threadIdx.x] += s[threadIdx.x + d]; __syncthreads(); }
    if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
