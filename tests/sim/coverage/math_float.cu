// launch: grid=2 block=64 words=40
// The single-precision math library, fast variants too.
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float a = ((int)in[3 * i] >> 8) * 1.7e-6f, b = __int_as_float(in[3 * i + 1]), p = fabsf(a) + 1e-3f;
    unsigned* o = out + i * 40;
#define PUT(k, x) o[k] = __float_as_uint(x)
    PUT(0, expf(a)); PUT(1, exp2f(a)); PUT(2, exp10f(a)); PUT(3, expm1f(a));
    PUT(4, logf(p)); PUT(5, log2f(p)); PUT(6, log10f(p)); PUT(7, log1pf(p));
    PUT(8, powf(p, a)); PUT(9, sinf(a)); PUT(10, cosf(a)); PUT(11, tanf(a)); PUT(12, sinf(b)); PUT(13, cosf(b));
    PUT(14, asinf(a * 0.06f)); PUT(15, acosf(a * 0.06f)); PUT(16, atanf(a)); PUT(17, atan2f(a, p));
    PUT(18, sinhf(a)); PUT(19, coshf(a)); PUT(20, tanhf(a)); PUT(21, asinhf(a)); PUT(22, acoshf(p + 1)); PUT(23, atanhf(a * 0.06f));
    PUT(24, erff(a)); PUT(25, erfcf(a)); PUT(26, tgammaf(p)); PUT(27, lgammaf(p)); PUT(28, cbrtf(a)); PUT(29, rsqrtf(p)); PUT(30, sqrtf(p));
    PUT(31, hypotf(a, p)); PUT(32, __expf(a)); PUT(33, __logf(p)); PUT(34, __sinf(a)); PUT(35, __cosf(a)); PUT(36, __powf(p, a)); PUT(37, __fdividef(a, p));
    PUT(38, normcdff(a)); PUT(39, fdimf(a, b) + ldexpf(a, 3) + scalbnf(p, -2) + logbf(p) + ilogbf(p) + j0f(p));
}
