// Small kernels that between them use most of what NVRTC emits for labs 00 to 05. `make_data.py` compiles them to PTX of
// both dialects. Every kernel has the same parameters: x and y hold n words each, out holds WORDS words per thread.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

#define KERNEL extern "C" __global__ void
constexpr int WORDS = 24;

struct Pair { int first; float second[3]; double third; };

__constant__ float table[16] = {1, 2, 3, 5, 8};
__device__ int counter = 7;
__device__ int* pointer = &counter;
__device__ const char* names[3] = {"zero", "one", "two"};
struct Entry { const char* name; int value; short pad[2]; };
__device__ Entry entries[2] = {{"alpha", 5, {1, -2}}, {"beta", -6, {3, 4}}};
__device__ double weights[3] = {1.0, 2.5, -3};

__device__ __noinline__ float scaled(Pair p, float x) { return p.second[1] * x + p.first; }
__device__ __noinline__ Pair made(float x) {
    Pair p;
    p.first = int(x);
    for (int k = 0; k < 3; k++) p.second[k] = x * (k + 1);
    p.third = x;
    return p;
}
__device__ __noinline__ int bytes_sum(char4 v, short2 w) { return v.x + v.y * 2 + v.z * 3 + v.w * 5 + w.x * 7 + w.y; }
__device__ __noinline__ float2 rotated(float2 v) { return make_float2(-v.y, v.x); }
__device__ __noinline__ float picked(const float* p, int i) { return p[i]; }
__device__ __noinline__ void raise_to(float* p, float v) { if (*p < v) *p = v; }

KERNEL calls(const float* x, const float* y, unsigned* out, int n, Pair p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Pair q = made(x[i]);
    float best = y[i];
    raise_to(&best, x[i]);
    float2 r = rotated(make_float2(x[i], y[i]));
    unsigned* o = out + i * WORDS;
    o[0] = __float_as_int(scaled(p, x[i]));
    o[1] = q.first + __float_as_int(q.second[2]);
    o[2] = __float_as_int(float(q.third + p.third));
    o[3] = bytes_sum(make_char4(i, -i, i * 3, 7), make_short2(i * 100, -5));
    o[4] = __float_as_int(r.x) ^ __float_as_int(r.y);
    o[5] = __float_as_int(best);
    if (i % 3 == 0) o[6] = __float_as_int(scaled(q, y[i]));
}

KERNEL divergence(const unsigned* x, const unsigned* y, unsigned* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned v = x[i] % 1000 + 1, steps = 0, inner = 0;
    while (v != 1) {
        v = v & 1 ? 3 * v + 1 : v >> 1;
        steps++;
        if (steps > 60) break;
        if (v % 7 == 3) continue;
        for (unsigned k = 0; k < v % 5; k++) {
            if (k == y[i] % 4) goto next;
            inner += k ^ v;
        }
    next:
        inner++;
    }
    unsigned r = 0;
    switch (y[i] % 9) {
        case 0: r = steps * 3; break;
        case 1: r = inner - 1; break;
        case 2: r = steps ^ 77;  // fall through
        case 3: r += steps / 3; break;
        case 4: r = __popc(inner); break;
        case 5: r = x[(i + 1) % n]; break;
        case 6: if (steps > 20) return; r = 9; break;
        default: r = ~steps;
    }
    out[i * WORDS] = steps;
    out[i * WORDS + 1] = inner;
    out[i * WORDS + 2] = r;
}

KERNEL reduction(const int* x, const int* y, unsigned* out, int n) {
    __shared__ int s[128];
    int t = threadIdx.x, sum = 0;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) sum += x[i] % 1000;
    s[t] = sum;
    __syncthreads();
    for (int o = blockDim.x / 2; o >= 32; o >>= 1) {
        if (t < o) s[t] += s[t + o];
        __syncthreads();
    }
    if (t < 32) {
        sum = s[t];
        for (int o = 16; o; o >>= 1) sum += __shfl_down_sync(~0u, sum, o);
        if (t == 0) atomicAdd((int*)out, sum);
        if (t == 0) atomicMax((int*)out + 1, sum);
    }
}

KERNEL memory_spaces(const float* x, const float* y, float* out, int n) {
    extern __shared__ float dynamic[];
    __shared__ float tile[32][33];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    float local[20];
    for (int k = 0; k < 20; k++) local[k] = x[(i + k) % n] * k;
    for (int k = 0; k < 5; k++) local[(i * 7 + k) % 20] += y[i % n];
    tile[t % 32][t / 32] = x[i % n];
    dynamic[t] = local[(i * 3) % 20];
    __syncthreads();
    const float* p = t & 1 ? x : dynamic;
    out[i * WORDS] = picked(p, (t + 1) % blockDim.x);
    out[i * WORDS + 1] = picked(t % 3 ? local : &tile[t % 32][0], t % 2);
    out[i * WORDS + 2] = table[t % 16] + *pointer + weights[t % 3];
    out[i * WORDS + 3] = names[t % 3][1] + entries[t % 2].name[2] + entries[t % 2].value + entries[t % 2].pad[1];
    out[i * WORDS + 4] = __isShared(p) + 2 * __isGlobal(p);
}

KERNEL wide(const float4* x, const double2* y, float4* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i * 4 >= n) return;
    float4 v = x[i];
    double2 d = y[i];
    char4 c = ((const char4*)x)[i];
    short2 h = ((const short2*)x)[i];
    long long l = ((const long long*)y)[i];
    v.x = __int_as_float(c.x + c.y * 256 + c.w);
    v.y = __int_as_float(h.x - h.y);
    v.z = d.x < d.y ? 1.f : 2.f;
    v.w = __int_as_float(int(l % 1000003) ^ int(l >> 40));
    out[i * WORDS / 4] = v;
    ((unsigned short*)(out + i * WORDS / 4 + 1))[1] = ((const unsigned char*)x)[i];
}

KERNEL integers(const unsigned* x, const unsigned* y, unsigned* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned a = x[i], b = y[i];
    int s = a, q = b;
    unsigned long long w = (unsigned long long)a << 32 | b;
    unsigned* o = out + i * WORDS;
    o[0] = __popc(a) + __clz(b) * 100 + __ffs(a) * 10000;
    o[1] = __brev(a) ^ __byte_perm(a, b, b & 0x7777);
    o[2] = __umulhi(a, b) + __mulhi(s, q);
    o[3] = __funnelshift_l(a, b, s) ^ __funnelshift_rc(a, b, q);
    o[4] = __dp4a(s, q, s) + __dp4a(a, b, b);
    o[5] = b ? a / b + a % b : 1;
    o[6] = q ? s / q - s % q : 2;
    o[7] = (unsigned)(w / (a | 1)) + (unsigned)(w % (b | 3));
    o[8] = (unsigned)((long long)w / ((long long)s * 3 + 1) >> 3);
    o[9] = (s >> 5 & 0xFF) + (s << (b % 32)) + (a >> (a % 32)) + abs(s) + min(s, q) + max(a, b);
    o[10] = __popcll(w) + __clzll(w) + __ffsll(w) + (unsigned)(__brevll(w) >> 17);
    o[11] = __sad(s, q, a) + __usad(a, b, 3) + __rhadd(s, q) + __uhadd(a, b);
    o[12] = (unsigned char)a * (signed char)b + (short)a * (unsigned short)b;
    o[13] = __vadd2(a, b) ^ __vmaxs2(a, b);
    o[14] = (unsigned)(w * w >> 7) + (unsigned)(__umul64hi(w, w + a));
    o[15] = __float2int_rn(__uint2float_rz(a)) + __float2uint_ru(a * 1e-3f) + (int)(b * 1.5);
}

KERNEL math_float(const float* x, const float* y, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i], b = fabsf(y[i]) + 1e-3f;
    float* o = out + i * WORDS;
    o[0] = sinf(a), o[1] = cosf(a * 1000), o[2] = tanf(a), o[3] = expf(a), o[4] = logf(b), o[5] = powf(b, a);
    o[6] = tanhf(a), o[7] = erff(a), o[8] = sqrtf(b), o[9] = rsqrtf(b), o[10] = a / b, o[11] = fmodf(a, b);
    o[12] = atan2f(a, b), o[13] = floorf(a) + ceilf(b) + rintf(a) + truncf(b), o[14] = cbrtf(a), o[15] = log1pf(b);
    o[16] = __sinf(a), o[17] = __expf(a), o[18] = __logf(b), o[19] = __fdividef(a, b), o[20] = exp2f(a);
    o[21] = fmaf(a, b, 1), o[22] = fminf(a, b) + fmaxf(a, -b), o[23] = asinf(a / (fabsf(a) + 1));
}

KERNEL math_double(const float* x, const float* y, double* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double a = x[i] * 1.0000001, b = fabs(y[i]) + 1e-3;
    double* o = out + i * (WORDS / 2);
    o[0] = atan(a), o[1] = exp(a), o[2] = log(b), o[3] = pow(b, a), o[4] = sqrt(b), o[5] = a / b, o[6] = fma(a, b, -a * b);
    o[7] = tanh(a), o[8] = floor(a * 10) + rint(b), o[9] = rsqrt(b), o[10] = fmod(a, b), o[11] = erf(a);
}

KERNEL halves(const float* x, const float* y, unsigned* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    half a = __float2half(x[i]), b = __float2half(y[i]);
    half2 v = __floats2half2_rn(x[i], y[i]), w = __halves2half2(b, a);
    __nv_bfloat16 c = __float2bfloat16(x[i]), d = __float2bfloat16(y[i]);
    unsigned* o = out + i * WORDS;
    o[0] = __half_as_ushort(__hfma(a, b, a)) | __half_as_ushort(__hadd(a, b)) << 16;
    o[1] = __half_as_ushort(__hmul(a, b)) | __half_as_ushort(__hdiv(a, b)) << 16;
    v = __hfma2(v, w, v);
    o[2] = __half_as_ushort(__low2half(v)) | __half_as_ushort(__high2half(v)) << 16;
    o[3] = __half2int_rn(a) + __half2int_rz(b) * 1000 + __hgt(a, b) + 2 * __hlt(a, b);
    o[4] = __half_as_ushort(hsqrt(__habs(a))) | __half_as_ushort(hrcp(b)) << 16;
    o[5] = __bfloat16_as_ushort(__hfma(c, d, c)) | __bfloat16_as_ushort(__hadd(c, d)) << 16;
    o[6] = __float_as_uint(__bfloat162float(__hmul(c, d))) ^ __float_as_uint(__half2float(__hmax(a, b)));
    o[7] = __half_as_ushort(__int2half_rn(i * 37)) | __half_as_ushort(__float2half_rz(x[i] / 3)) << 16;
    o[8] = __half_as_ushort(__hneg(__hmin(a, b)));
}

KERNEL warps(const unsigned* x, const unsigned* y, unsigned* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    unsigned a = x[i % n], b = y[i % n];
    unsigned* o = out + i * WORDS;
    o[0] = __shfl_sync(~0u, a, lane * 5 + 3) + __shfl_up_sync(~0u, a, 3) + __shfl_down_sync(~0u, b, 2, 8);
    o[1] = __shfl_xor_sync(~0u, a, 9) + __shfl_sync(~0u, b, lane + 1, 16);
    o[2] = __ballot_sync(~0u, a & 1);
    o[3] = __any_sync(~0u, a == b) + 2 * __all_sync(~0u, a > 5) + 4 * __any_sync(~0u, lane == 3);
    o[4] = __match_any_sync(~0u, a % 5);
    int all;
    o[5] = __match_all_sync(~0u, b % 2 * 0 + blockIdx.x, &all) + all;
    o[6] = __reduce_add_sync(~0u, a) + __reduce_max_sync(~0u, b) + __reduce_xor_sync(~0u, a);
    if (lane % 3 == 1) {
        o[7] = __activemask();
        o[8] = __ballot_sync(0x92492492, b & 2);
        o[9] = __shfl_sync(0x92492492, a, 4);
    }
    __syncwarp();
    o[10] = __syncthreads_count(a & 1) + 1000 * __syncthreads_and(b != 0) + 10000 * __syncthreads_or(a == 77);
    double d = __shfl_xor_sync(~0u, double(a) * b, 1);
    o[11] = __double2hiint(d) ^ __double2loint(d);
}

KERNEL atomics(const unsigned* x, const float* y, unsigned* out, int n) {
    __shared__ unsigned s[8];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (t < 8) s[t] = t == 3 ? ~0u : t == 7 ? 500 : 0;
    __syncthreads();
    unsigned a = x[i % n];
    atomicAdd(&s[0], a % 100), atomicOr(&s[1], a), atomicXor(&s[2], a), atomicAnd(&s[3], a | 0xFF);
    atomicMax(&s[4], a), atomicInc(&s[5], 40), atomicDec(&s[7], 1000);
    atomicMin((int*)&s[6], int(a));
    __syncthreads();
    if (t < 8) out[blockIdx.x * WORDS + t] = s[t];
    unsigned* g = out + gridDim.x * WORDS;
    atomicAdd(&g[0], a % 1000), atomicSub(&g[1], a % 77), atomicMax((int*)&g[2], int(a)), atomicMin(&g[3], a);
    atomicAdd((unsigned long long*)(g + 4), (unsigned long long)a * a);
    atomicAdd((float*)&g[6], float(a % 64)), atomicAdd((double*)(g + 8), double(a % 64) * 0.5);
    unsigned seen = atomicCAS(&g[10 + i], 0, a);
    atomicExch(&g[10 + i], atomicCAS(&g[10 + i], a, seen + i) ^ a);
}

KERNEL printing(const unsigned* x, const float* y, unsigned* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i % 37 == 0) printf("i=%d x=%08x %5.2f|%-6s|%c%% %lld\n", i, x[i % n], y[i % n], i % 2 ? "odd" : "even", 'A' + i % 26, (long long)i << 33);
    if (i == 5) printf("plain\n");
}

KERNEL barriers(const int* x, const int* y, unsigned* out, int n) {
    __shared__ int s[2][64];
    int t = threadIdx.x, a = x[t];
    for (int k = 0; k < 5; k++) {
        s[k & 1][t] = a;
        __syncthreads();
        a = a * 3 + s[k & 1][(t + k + 1) % 64];
        if (k == 3 && t >= 60) break;
    }
    out[t] = a;
}

KERNEL trigonometry(const float* x, const float* y, double* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double a = x[i] * exp(double(y[i])), *o = out + i * (WORDS / 2);
    o[0] = sin(a), o[1] = cos(a), o[2] = tan(a), o[3] = sinpi(a), o[4] = lgamma(fabs(a)), o[5] = cbrt(a);
}

KERNEL async_copies(const float* x, const float* y, float* out, int n) {
    __shared__ float4 wide[2][64];
    __shared__ float narrow[2][64];
    int t = threadIdx.x;
    float sum = 0;
    for (int k = 0; k < 5; k++) {
        int i = (k * 64 + t) % (n / 4);
        __pipeline_memcpy_async(&wide[k & 1][t], (const float4*)x + i, 16, t % 5 == 0 ? 8 : 0);
        if (t % 3) __pipeline_memcpy_async(&narrow[k & 1][t], y + i, 4);
        else narrow[k & 1][t] = k;
        __pipeline_commit();
        if (k) {
            __pipeline_wait_prior(1);
            __syncthreads();
            float4 v = wide[k - 1 & 1][63 - t];
            sum += v.x + v.w * narrow[k - 1 & 1][t ^ 1];
            __syncthreads();
        }
    }
    out[(blockIdx.x * 64 + t) * WORDS] = sum;
}

KERNEL collectives(const unsigned* x, const unsigned* y, unsigned* out, int n) {
    // Shuffles and votes by a part of the warp, inside loops that lanes leave at different times.
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    unsigned a = x[i % n] % 97, sum = 0, rounds = 0;
    for (unsigned k = 0; k < 3 + a % 6; k++) {
        unsigned active = __activemask();
        sum += __popc(active) * (k + 1);
        if (a >> k & 1) sum ^= __ballot_sync(__activemask(), lane > 7) * 3;
        rounds++;
    }
    __syncwarp();
    unsigned low = lane < 16 ? 0xFFFFu : 0xFFFF0000u;
    if (lane < 16) sum += __shfl_xor_sync(low, a, 5);
    else sum += __shfl_down_sync(low, a, 3) + __reduce_min_sync(low, a);
    __syncwarp();
    for (int o = 16; o; o >>= 1) rounds += __shfl_xor_sync(~0u, rounds, o);
    unsigned* p = out + i * WORDS;
    p[0] = sum, p[1] = rounds, p[2] = __match_any_sync(~0u, a % 3) + __match_any_sync(low, a & 1);
}
