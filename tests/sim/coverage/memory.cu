// launch: grid=2 block=64 words=24 shared=1024
// Loads and stores of every width with cache hints; constant, module, shared, dynamic shared and local memory; generic pointers.
__constant__ unsigned table[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
__device__ unsigned variable[4] = {10, 20, 30, 40};
__device__ unsigned* pointer = variable + 1;
__constant__ struct { short a; char b[5]; double c; } record = {-7, {1, 2, 3, 4, 5}, 2.5};
extern __shared__ unsigned dynamic[];
__device__ __noinline__ unsigned through(const unsigned* p, int n) { return p[n]; }
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    __shared__ unsigned fixed[64];
    __shared__ unsigned char bytes[64];
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    unsigned* o = out + i * 24;
    unsigned local[12];
    for (int n = 0; n < 12; ++n) local[n] = in[(i + n) & 127] * n;
    fixed[t] = in[i]; dynamic[t] = in[i + 64]; bytes[t] = (unsigned char)in[i]; dynamic[64 + t] = t;
    __syncthreads();
    const uint4 v = reinterpret_cast<const uint4*>(in)[i & 31];
    const double2 d = reinterpret_cast<const double2*>(in)[i & 31];
    const ushort4 h = reinterpret_cast<const ushort4*>(in)[i];
    o[0] = v.x ^ v.w; o[1] = (unsigned)__double_as_longlong(d.y); o[2] = h.x ^ h.z << 8; o[3] = reinterpret_cast<const signed char*>(in)[i];
    o[4] = __ldg(in + i) + __ldg(reinterpret_cast<const uint2*>(in) + (i & 31)).y; o[5] = __ldcg(in + i) ^ __ldcs(in + i + 1); o[6] = __ldca(in + i) ^ __ldlu(in + i) ^ __ldcv(in + i + 2);
    o[7] = table[i & 15] * 100 + table[5]; o[8] = variable[i & 3] + pointer[0]; o[9] = record.a * 1000 + record.b[i % 5] + (int)record.c;
    o[10] = fixed[63 - t] ^ bytes[(t + 5) & 63]; o[11] = dynamic[(t + 1) & 63] + dynamic[64 + (t ^ 7)];
    o[12] = local[in[i] % 12]; o[13] = reinterpret_cast<unsigned char*>(local)[in[i + 1] % 48];
    o[14] = through(i & 1 ? fixed : local, i & 7); o[15] = through(i & 2 ? dynamic : in, i & 7); o[16] = through(i & 4 ? table : variable, i & 3);
    const void* places[4] = {fixed + t, local + 1, in + i, table};
    unsigned kinds = 0;
    for (int n = 0; n < 4; ++n) kinds |= (__isShared(places[n]) | __isLocal(places[n]) << 1 | __isGlobal(places[n]) << 2 | __isConstant(places[n]) << 3) << 4 * n;
    o[17] = kinds;
    o[18] = (unsigned)__cvta_generic_to_shared(fixed + t) - (unsigned)__cvta_generic_to_shared(fixed);
    __stcg(o + 19, v.y); __stcs(o + 20, v.z); __stwt(o + 21, h.y); __stwb(o + 22, h.w);
    reinterpret_cast<volatile unsigned*>(o)[23] = reinterpret_cast<const volatile unsigned*>(in)[i];
}
