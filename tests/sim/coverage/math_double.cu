// launch: grid=1 block=64 words=32
// The double-precision math library; large arguments of sin and cos use local memory.
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const double a = (int)in[3 * i] * 7.1e-9, p = fabs(a) + 1e-3;
    const double big = __longlong_as_double(((unsigned long long)in[3 * i + 1] << 32 | in[3 * i + 2]) & 0x7fffffffffffffffull);
    unsigned* o = out + i * 32;
#define PUT(k, v) { const unsigned long long w = __double_as_longlong(v); o[k] = (unsigned)(w ^ (w >> 32) * 31); }
    PUT(0, exp(a)) PUT(1, exp2(a)) PUT(2, exp10(a)) PUT(3, expm1(a)) PUT(4, log(p)) PUT(5, log2(p)) PUT(6, log10(p)) PUT(7, log1p(p))
    PUT(8, pow(p, a)) PUT(9, sin(a)) PUT(10, cos(a)) PUT(11, tan(a)) PUT(12, sin(big)) PUT(13, cos(big)) PUT(14, asin(a * 0.06)) PUT(15, acos(a * 0.06))
    PUT(16, atan(a)) PUT(17, atan2(a, p)) PUT(18, sinh(a)) PUT(19, cosh(a)) PUT(20, tanh(a)) PUT(21, asinh(a)) PUT(22, erf(a)) PUT(23, erfc(a))
    PUT(24, tgamma(p)) PUT(25, lgamma(p)) PUT(26, cbrt(a)) PUT(27, rsqrt(p)) PUT(28, sqrt(p)) PUT(29, hypot(a, p)) PUT(30, normcdf(a)) PUT(31, j0(p))
}
