// math.h: the functions of C's <math.h> and CUDA's fast ones. Ours, from textbooks: those of float are computed in
// double and rounded once (expf, exp2f, exp10f, logf and their like, which kernels spend time in, in float), so that they
// keep the bounds which the CUDA Programming Guide documents; they need not give NVIDIA's own last bit. Those of double
// are right within six units in the last place, most within two.
#pragma once
#include "float.h"

#define WARPSCHOOL_LN2 0x1.62e42fefa39efp-1
#define WARPSCHOOL_LN2_LOW 0x1.abc9e3b39803fp-56
#define WARPSCHOOL_LOG2E 0x1.71547652b82fep+0

// ---------------------------------------------------------------- float, in float

WARPSCHOOL_DEVICE float warpschool_times_2_to(float x, int exponent) { // in two factors: subnormal results are right
  int half = exponent >> 1;
  return x * __int_as_float((127 + half) << 23) * __int_as_float((127 + exponent - half) << 23);
}
// 2^(x * high + x * low), for x * high not past what a float can hold by much
WARPSCHOOL_DEVICE float warpschool_power(float x, float high, float low) {
  float whole = rintf(fminf(fmaxf(x * high, -180.0f), 180.0f));
  float part = __builtin_fmaf(x, low, __builtin_fmaf(x, high, -whole));
  float result = warpschool_times_2_to(warpschool_ex2(fminf(fmaxf(part, -1.0f), 1.0f)), (int)whole);
  return x != x ? x : result;
}
WARPSCHOOL_DEVICE float __expf(float x) { return warpschool_ex2(x * 0x1.715476p+0f); }
WARPSCHOOL_DEVICE float __exp10f(float x) { return warpschool_ex2(x * 0x1.a934f0p+1f); }
WARPSCHOOL_DEVICE float __log2f(float x) { return warpschool_lg2(x); }
WARPSCHOOL_DEVICE float __logf(float x) { return warpschool_lg2(x) * 0x1.62e430p-1f; }
WARPSCHOOL_DEVICE float __log10f(float x) { return warpschool_lg2(x) * 0x1.344136p-2f; }
WARPSCHOOL_DEVICE float __powf(float x, float y) { return warpschool_ex2(y * warpschool_lg2(x)); }
WARPSCHOOL_DEVICE float __tanf(float x) { return __fdividef(__sinf(x), __cosf(x)); }
WARPSCHOOL_DEVICE void __sincosf(float x, float *sine, float *cosine) {
  *sine = __sinf(x);
  *cosine = __cosf(x);
}
#ifdef WARPSCHOOL_FAST_MATH
WARPSCHOOL_DEVICE float expf(float x) { return __expf(x); }
WARPSCHOOL_DEVICE float logf(float x) { return __logf(x); }
WARPSCHOOL_DEVICE float log2f(float x) { return __log2f(x); }
WARPSCHOOL_DEVICE float log10f(float x) { return __log10f(x); }
WARPSCHOOL_DEVICE float exp10f(float x) { return __exp10f(x); }
#else
WARPSCHOOL_DEVICE float expf(float x) { return warpschool_power(x, 0x1.715476p+0f, 0x1.4ae0c0p-26f); }
WARPSCHOOL_DEVICE float exp10f(float x) { return warpschool_power(x, 0x1.a934f0p+1f, 0x1.2f346ep-24f); }
// log(x) = e log 2 + 2 atanh(s) with s = (m - 1) / (m + 1) and x = m 2^e, m next to 1; `unit` is 1 / log(base)
WARPSCHOOL_DEVICE float warpschool_log(float x, double unit) {
  float scaled = x < 0x1p-126f ? x * 0x1p23f : x;
  int bits = __float_as_int(scaled), e = (bits - 0x3f3504f3) >> 23;
  float m = __int_as_float(bits - (e << 23));
  e -= x < 0x1p-126f ? 23 : 0;
  float f = m - 1.0f, s = f / (2.0f + f), square = s * s;
  float rest = __builtin_fmaf(square, 0x1.c71c72p-3f, 0x1.24924ap-2f);
  rest = __builtin_fmaf(rest, square, 0x1.99999ap-2f);
  rest = __builtin_fmaf(rest, square, 0x1.555556p-1f);
  // f - s f is 2 s: what is left of it after rounding s costs most of the error, so it is taken from f itself
  double low = (double)(s * (square * rest - f));
  double result = ((double)f + low + e * WARPSCHOOL_LN2) * unit;
  if (!(x > 0.0f)) return x == 0.0f ? -__builtin_inff() : __builtin_nanf("");
  return x == __builtin_inff() ? x : (float)result;
}
WARPSCHOOL_DEVICE float logf(float x) { return warpschool_log(x, 1.0); }
WARPSCHOOL_DEVICE float log2f(float x) { return warpschool_log(x, WARPSCHOOL_LOG2E); }
WARPSCHOOL_DEVICE float log10f(float x) { return warpschool_log(x, 0x1.bcb7b1526e50ep-2); }
#endif
WARPSCHOOL_DEVICE float exp2f(float x) {
#ifdef WARPSCHOOL_FAST_MATH
  return warpschool_ex2(x);
#else
  return warpschool_power(x, 1.0f, 0.0f);
#endif
}

// ---------------------------------------------------------------- double: exponentials and logarithms

WARPSCHOOL_DEVICE double ldexp(double x, int exponent) {
  exponent = min(max(exponent, -2200), 2200);
  for (int part = 0; part < 3; ++part) { // three factors, since one power of two holds no more than 2^1023
    int step = min(max(exponent, -1000), 1000);
    x *= __longlong_as_double((long long)(1023 + step) << 52);
    exponent -= step;
  }
  return x;
}
WARPSCHOOL_DEVICE double scalbn(double x, int exponent) { return ldexp(x, exponent); }
WARPSCHOOL_DEVICE double frexp(double x, int *exponent) {
  *exponent = 0;
  if (x == 0.0 || !isfinite(x)) return x;
  double scaled = fabs(x) < 0x1p-1022 ? x * 0x1p54 : x;
  long long bits = __double_as_longlong(scaled);
  *exponent = (int)(bits >> 52 & 0x7ff) - 1022 - (scaled != x ? 54 : 0);
  return __longlong_as_double((bits & ~(0x7ffLL << 52)) | 1022LL << 52);
}
WARPSCHOOL_DEVICE double logb(double x) {
  int exponent;
  if (x == 0.0) return -__builtin_inf();
  if (!isfinite(x)) return fabs(x);
  frexp(x, &exponent);
  return exponent - 1;
}
WARPSCHOOL_DEVICE int ilogb(double x) {
  if (x == 0.0 || isnan(x)) return -0x7fffffff - 1;
  return isinf(x) ? 0x7fffffff : (int)logb(x);
}
// e^(x + low) 2^shift; Taylor's series to the power of 13 on half of log 2, whose rest is below 2^-57
WARPSCHOOL_DEVICE double warpschool_exp(double x, double low, int shift) {
  double whole = rint(fmin(fmax(x, -2000.0), 2000.0) * WARPSCHOOL_LOG2E);
  double r = __builtin_fma(-whole, WARPSCHOOL_LN2, x);
  r = __builtin_fma(-whole, WARPSCHOOL_LN2_LOW, r) + low;
  double sum = 1.0 / 6227020800.0;
  constexpr double over[] = {1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0,
                             1.0 / 40320.0,     1.0 / 5040.0,     1.0 / 720.0,     1.0 / 120.0,
                             1.0 / 24.0,        1.0 / 6.0,        0.5,             1.0};
#pragma unroll
  for (double term : over) sum = __builtin_fma(sum, r, term);
  if (!(x < 1500.0)) return isnan(x) ? x : __builtin_inf();
  return x < -1500.0 ? 0.0 : ldexp(__builtin_fma(sum, r, 1.0), (int)whole + shift);
}
WARPSCHOOL_DEVICE double exp(double x) { return warpschool_exp(x, 0.0, 0); }
WARPSCHOOL_DEVICE double exp2(double x) {
  double whole = rint(fmin(fmax(x, -1500.0), 1500.0)), part = fmin(fmax(x - whole, -1500.0), 1500.0);
  return isnan(x) ? x : warpschool_exp(part * WARPSCHOOL_LN2, part * WARPSCHOOL_LN2_LOW, (int)whole);
}
WARPSCHOOL_DEVICE double exp10(double x) {
  double whole = rint(fmin(fmax(x, -500.0), 500.0) * 0x1.a934f0979a371p+1);
  double r = __builtin_fma(-whole, 0x1.34413509f79ffp-2, fmin(fmax(x, -500.0), 500.0));
  r = __builtin_fma(-whole, -0x1.9dc1da994fd21p-59, r);
  return isnan(x) ? x : warpschool_exp(r * 0x1.26bb1bbb55516p+1, 0.0, (int)whole);
}
WARPSCHOOL_DEVICE double expm1(double x) {
  if (!(fabs(x) < 1.0)) return exp(x) - 1.0;
  double sum = 0.0;
  for (int n = 20; n >= 3; --n) sum = (sum + 1.0) * x * (1.0 / n); // x/3 + x^2/(3 4) + ... in Horner's order
  return __builtin_fma(0.5 * x * x, sum + 1.0, x);
}
// log(x) as two doubles, for x > 0 and finite: `low` is what `high` leaves off
WARPSCHOOL_DEVICE void warpschool_log2parts(double x, double *high, double *low) {
  int e;
  double m = frexp(x, &e);
  if (m < 0x1.6a09e667f3bcdp-1) m *= 2.0, e -= 1;
  double f = m - 1.0, g = m + 1.0, s = f / g;
  double g_low = m - (g - 1.0), s_low = (__builtin_fma(-s, g, f) - s * g_low) / g;
  double square = s * s, sum = 0.0;
  for (int n = 23; n >= 3; n -= 2) sum = __builtin_fma(sum, square, 2.0 / n);
  // rounded by itself: joined to the sum below, what the sum leaves off could not be found
  double lead = 2.0 * s, rest = __builtin_fma(sum * square, s, 2.0 * s_low);
  double a = __dmul_rn(e, WARPSCHOOL_LN2), a_low = __builtin_fma((double)e, WARPSCHOOL_LN2, -a) + e * WARPSCHOOL_LN2_LOW;
  double whole = a + lead, back = whole - a;
  double lost = (a - (whole - back)) + (lead - back) + a_low + rest;
  *high = whole + lost;
  *low = lost - (*high - whole);
}
WARPSCHOOL_DEVICE double log(double x) {
  double high, low;
  if (!(x > 0.0)) return x == 0.0 ? -__builtin_inf() : __builtin_nan("");
  if (x == __builtin_inf()) return x;
  warpschool_log2parts(x, &high, &low);
  return high;
}
WARPSCHOOL_DEVICE double warpschool_log_of(double x, double unit) { // log(x) unit, of all that is known of log(x)
  double high, low;
  if (!(x > 0.0) || x == __builtin_inf()) return log(x);
  warpschool_log2parts(x, &high, &low);
  return __builtin_fma(high, unit, low * unit);
}
WARPSCHOOL_DEVICE double log2(double x) {
  int e;
  double m = frexp(x, &e);
  return m == 0.5 ? e - 1.0 : warpschool_log_of(x, WARPSCHOOL_LOG2E);
}
WARPSCHOOL_DEVICE double log10(double x) { return warpschool_log_of(x, 0x1.bcb7b1526e50ep-2); }
WARPSCHOOL_DEVICE double log1p(double x) {
  double u = 1.0 + x;
  return !(x > -1.0) || isinf(x) ? log(u) : log(u) + (x - (u - 1.0)) / u;
}
WARPSCHOOL_DEVICE double pow(double x, double y) {
  if (y == 0.0 || x == 1.0) return 1.0;
  if (isnan(x) || isnan(y)) return x + y;
  double size = fabs(x);
  bool is_whole = trunc(y) == y, is_odd = is_whole && fabs(y) < 0x1p53 && ((long long)y & 1);
  double sign = is_odd && signbit(x) ? -1.0 : 1.0;
  if (isinf(y)) return size == 1.0 ? 1.0 : (size > 1.0) == (y > 0.0) ? __builtin_inf() : 0.0;
  if (size == 0.0 || isinf(size)) return sign * ((size == 0.0) == (y < 0.0) ? __builtin_inf() : 0.0);
  if (x < 0.0 && !is_whole) return __builtin_nan("");
  double high, low;
  warpschool_log2parts(size, &high, &low);
  double product = y * high;
  return sign * warpschool_exp(product, __builtin_fma(y, high, -product) + y * low, 0);
}

// ---------------------------------------------------------------- double: trigonometry

// 64 zeros, then 1280 bits of 2 / pi behind the point
static __constant__ const unsigned long long warpschool_two_over_pi[21] = {
    0,                  0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
    0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
    0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};

// x - n pi/2 for x of 2^48 and more, and n modulo 4: 192 bits of 2/pi, from where they count, times the significand (Payne, Hanek)
static __attribute__((noinline, device, nodebug)) double warpschool_reduce_huge(double x, int *quadrant) {
  long long bits = __double_as_longlong(fabs(x));
  unsigned long long significand = (bits & ((1LL << 52) - 1)) | 1LL << 52;
  int first = (int)(bits >> 52) - 1075 - 2 + 64, word = first >> 6, by = first & 63;
  unsigned long long piece[3], product[3], carry = 0;
  for (int i = 0; i < 3; ++i) {
    unsigned long long here = warpschool_two_over_pi[word + i], next = warpschool_two_over_pi[word + i + 1];
    piece[i] = by ? here << by | next >> (64 - by) : here;
  }
  for (int i = 2; i >= 0; --i) {
    unsigned long long low = piece[i] * significand;
    product[i] = low + carry;
    carry = __umul64hi(piece[i], significand) + (product[i] < low);
  }
  int n = (int)(product[0] >> 62);
  unsigned long long high = product[0] << 2 | product[1] >> 62, low = product[1] << 2 | product[2] >> 62;
  bool is_over = high >> 63;
  if (is_over) {
    ++n;
    low = ~low + 1;
    high = ~high + (low == 0);
  }
  double part = (double)high * 0x1p-64 + (double)low * 0x1p-128;
  double angle = (is_over ? -part : part) * 0x1.921fb54442d18p+0;
  *quadrant = (x < 0.0 ? -n : n) & 3;
  return x < 0.0 ? -angle : angle;
}
WARPSCHOOL_DEVICE double warpschool_reduce(double x, int *quadrant) {
  if (!(fabs(x) < 0x1p48)) {
    if (!isfinite(x)) return __builtin_nan("");
    return warpschool_reduce_huge(x, quadrant);
  }
  double n = rint(x * 0x1.45f306dc9c883p-1);
  *quadrant = (int)((long long)n & 3);
  double r = __builtin_fma(-n, 0x1.921fb54442d18p+0, x);
  r = __builtin_fma(-n, 0x1.1a62633145c07p-54, r);
  return __builtin_fma(-n, -0x1.f1976b7ed8fbcp-110, r);
}
WARPSCHOOL_DEVICE double warpschool_sine(double r, bool is_cosine) { // on pi/4, by Taylor's series
  double square = r * r, sum = 0.0;
#pragma unroll
  for (int n = 10; n >= 1; --n) {
    double step = is_cosine ? (2 * n - 1) * (2 * n) : (2 * n) * (2 * n + 1);
    sum = (sum + 1.0) * (-square / step);
  }
  return is_cosine ? 1.0 + sum : __builtin_fma(r, sum, r);
}
WARPSCHOOL_DEVICE double warpschool_circle(double x, int turn) { // sin(x + turn pi/2)
  int quadrant = 0;
  double r = warpschool_reduce(x, &quadrant);
  quadrant += turn;
  double value = warpschool_sine(r, quadrant & 1);
  return quadrant & 2 ? -value : value;
}
WARPSCHOOL_DEVICE double sin(double x) { return x == 0.0 ? x : warpschool_circle(x, 0); }
WARPSCHOOL_DEVICE double cos(double x) { return warpschool_circle(x, 1); }
WARPSCHOOL_DEVICE double tan(double x) {
  int quadrant = 0;
  double r = warpschool_reduce(x, &quadrant), sine = warpschool_sine(r, false), cosine = warpschool_sine(r, true);
  return x == 0.0 ? x : quadrant & 1 ? -cosine / sine : sine / cosine;
}
WARPSCHOOL_DEVICE void sincos(double x, double *sine, double *cosine) { *sine = sin(x), *cosine = cos(x); }
WARPSCHOOL_DEVICE double warpschool_circle_of_pi(double x, int turn) { // sin(pi x + turn pi/2)
  double small = x - 2.0 * rint(0.5 * x), n = rint(2.0 * small), r = small - 0.5 * n;
  int quadrant = (int)n + turn;
  double value = warpschool_sine(r * 0x1.921fb54442d18p+1, quadrant & 1);
  return isinf(x) ? __builtin_nan("") : quadrant & 2 ? -value : value;
}
WARPSCHOOL_DEVICE double sinpi(double x) { return x == trunc(x) ? copysign(0.0, x) : warpschool_circle_of_pi(x, 0); }
WARPSCHOOL_DEVICE double cospi(double x) { return warpschool_circle_of_pi(x, 1); }
WARPSCHOOL_DEVICE double atan(double x) { // twice half the angle, then the series of a number below 0.2
  double size = fabs(x), t = size > 1.0 ? 1.0 / size : size;
  for (int i = 0; i < 2; ++i) t = t / (1.0 + __builtin_sqrt(__builtin_fma(t, t, 1.0)));
  double square = t * t, sum = 0.0;
  for (int n = 25; n >= 3; n -= 2) sum = -square * (1.0 / n + sum);
  double angle = 4.0 * __builtin_fma(t, sum, t);
  if (size > 1.0) angle = 0x1.921fb54442d18p+0 - (angle - 0x1.1a62633145c07p-54);
  return isnan(x) ? x : copysign(angle, x);
}
WARPSCHOOL_DEVICE double atan2(double y, double x) {
  if (isnan(x) || isnan(y)) return x + y;
  double angle;
  if (y == 0.0) angle = signbit(x) ? 0x1.921fb54442d18p+1 : 0.0;
  else if (isinf(x) && isinf(y)) angle = x > 0.0 ? 0x1.921fb54442d18p-1 : 0x1.2d97c7f3321d2p+1;
  else {
    angle = atan(fabs(y) / fabs(x));
    if (signbit(x)) angle = 0x1.921fb54442d18p+1 - (angle - 0x1.1a62633145c07p-53);
  }
  return copysign(angle, y);
}
WARPSCHOOL_DEVICE double asin(double x) { return atan2(x, __builtin_sqrt((1.0 - x) * (1.0 + x))); }
WARPSCHOOL_DEVICE double acos(double x) { return atan2(__builtin_sqrt((1.0 - x) * (1.0 + x)), x); }

// ---------------------------------------------------------------- double: hyperbolic functions, roots, errors' integral

WARPSCHOOL_DEVICE double sinh(double x) {
  double size = fabs(x), e = expm1(size);
  double value = size > 700.0 ? exp(0.5 * size) * 0.5 * exp(0.5 * size) : 0.5 * (e + e / (e + 1.0));
  return isnan(x) ? x : copysign(value, x);
}
WARPSCHOOL_DEVICE double cosh(double x) {
  double size = fabs(x), e = exp(0.5 * size);
  return size > 700.0 ? e * 0.5 * e : 0.5 * (e * e + 1.0 / (e * e));
}
WARPSCHOOL_DEVICE double tanh(double x) {
  double size = fabs(x), e = expm1(2.0 * size);
  return isnan(x) ? x : copysign(size > 30.0 ? 1.0 : e / (e + 2.0), x);
}
WARPSCHOOL_DEVICE double asinh(double x) {
  double size = fabs(x);
  double value = size > 0x1p28 ? log(size) + WARPSCHOOL_LN2
                               : log1p(size + size * size / (1.0 + __builtin_sqrt(__builtin_fma(size, size, 1.0))));
  return isnan(x) ? x : copysign(value, x);
}
WARPSCHOOL_DEVICE double acosh(double x) {
  double f = x - 1.0;
  return x > 0x1p28 ? log(x) + WARPSCHOOL_LN2 : log1p(f + __builtin_sqrt(f * (x + 1.0)));
}
WARPSCHOOL_DEVICE double atanh(double x) { return copysign(0.5 * log1p(2.0 * fabs(x) / (1.0 - fabs(x))), x); }
WARPSCHOOL_DEVICE double cbrt(double x) {
  if (x == 0.0 || !isfinite(x)) return x;
  double size = fabs(x), root = exp(log(size) * (1.0 / 3.0));
  root -= (root * root * root - size) / (3.0 * root * root);
  return copysign(root, x);
}
WARPSCHOOL_DEVICE double rcbrt(double x) { return 1.0 / cbrt(x); }
WARPSCHOOL_DEVICE double hypot(double x, double y) {
  double large = fmax(fabs(x), fabs(y)), small = fmin(fabs(x), fabs(y));
  if (isinf(x) || isinf(y)) return __builtin_inf();
  int e;
  frexp(large, &e);
  large = ldexp(large, -e), small = ldexp(small, -e);
  return isnan(x) || isnan(y) ? x + y : ldexp(__builtin_sqrt(__builtin_fma(large, large, small * small)), e);
}
WARPSCHOOL_DEVICE double rhypot(double x, double y) { return 1.0 / hypot(x, y); }
WARPSCHOOL_DEVICE double warpschool_erf_series(double x) { // Abramowitz and Stegun 7.1.6: no term is negative
  double square = x * x, sum = 0.0;
  for (int n = 30; n >= 1; --n) sum = (1.0 + sum) * (square / (n + 0.5));
  return 0x1.20dd750429b6dp+0 * exp(-square) * __builtin_fma(x, sum, x);
}
WARPSCHOOL_DEVICE double warpschool_erfc_fraction(double x) { // 7.1.14, for x from 1 on
  double below = x, square = x * x;
  for (int n = x < 2.0 ? 250 : 70; n >= 1; --n) below = x + 0.5 * n / below;
  return warpschool_exp(-square, -__builtin_fma(x, x, -square), 0) / below * 0x1.20dd750429b6dp-1;
}
WARPSCHOOL_DEVICE double erfc(double x) {
  double size = fabs(x);
  if (isnan(x)) return x;
  if (size < 1.0) return x < 0.5 ? 1.0 - warpschool_erf_series(x) : 0.5 - (warpschool_erf_series(x) - 0.5);
  double value = size < 28.0 ? warpschool_erfc_fraction(size) : 0.0;
  return x < 0.0 ? 2.0 - value : value;
}
WARPSCHOOL_DEVICE double erf(double x) {
  double size = fabs(x);
  return isnan(x) ? x : size < 1.0 ? warpschool_erf_series(x) : copysign(1.0 - erfc(size), x);
}
WARPSCHOOL_DEVICE double normcdf(double x) {
  double z = __dmul_rn(-x, 0x1.6a09e667f3bcdp-1);
  double left = __builtin_fma(-x, 0x1.6a09e667f3bcdp-1, -z) + x * 0x1.bdd3413b26456p-55; // what z leaves off
  return z > 1.0 && z < 28.0 ? 0.5 * erfc(z) * (1.0 - 2.0 * z * left) : 0.5 * erfc(z);
}

// ---------------------------------------------------------------- double: remainders

WARPSCHOOL_DEVICE double fmod(double x, double y) { // long division, bit by bit: exact
  double rest = fabs(x), by = fabs(y);
  if (isnan(x) || isnan(y) || isinf(x) || y == 0.0) return __builtin_nan("");
  if (isinf(y) || rest < by) return x;
  int e_rest, e_by;
  frexp(rest, &e_rest), frexp(by, &e_by);
  for (int shift = e_rest - e_by; shift >= 0; --shift) {
    double multiple = ldexp(by, shift);
    if (rest >= multiple) rest -= multiple;
  }
  return copysign(rest, x);
}
WARPSCHOOL_DEVICE double remainder(double x, double y) {
  double by = fabs(y), rest = isinf(y) ? x : fmod(x, 2.0 * by);
  if (isinf(by) || isnan(rest)) return rest;
  double size = fabs(rest);
  if (size > 0.5 * by) size -= by;
  if (size >= 0.5 * by) size -= by;
  return signbit(x) ? -size : size;
}
WARPSCHOOL_DEVICE float nextafterf(float x, float y) {
  if (isnan(x) || isnan(y) || x == y) return x == y ? y : x + y;
  if (x == 0.0f) return copysignf(0x1p-149f, y);
  return __int_as_float(__float_as_int(x) + ((x < y) == (x > 0.0f) ? 1 : -1));
}
WARPSCHOOL_DEVICE double nextafter(double x, double y) {
  if (isnan(x) || isnan(y) || x == y) return x == y ? y : x + y;
  if (x == 0.0) return copysign(0x1p-1074, y);
  return __longlong_as_double(__double_as_longlong(x) + ((x < y) == (x > 0.0) ? 1 : -1));
}

// ---------------------------------------------------------------- float, by way of double

#define WARPSCHOOL_FLOAT1(name)                                                                                        \
  WARPSCHOOL_DEVICE float name##f(float x) { return (float)name((double)x); }
#define WARPSCHOOL_FLOAT2(name)                                                                                        \
  WARPSCHOOL_DEVICE float name##f(float x, float y) { return (float)name((double)x, (double)y); }
#define WARPSCHOOL_OVERLOAD1(name)                                                                                     \
  WARPSCHOOL_DEVICE float name(float x) { return name##f(x); }
#define WARPSCHOOL_OVERLOAD2(name)                                                                                     \
  WARPSCHOOL_DEVICE float name(float x, float y) { return name##f(x, y); }
#define WARPSCHOOL_EACH1(each)                                                                                         \
  each(expm1) each(log1p) each(atan) each(asin) each(acos) each(sinh) each(cosh) each(tanh) each(asinh) each(acosh)    \
      each(atanh) each(cbrt) each(rcbrt) each(erf) each(erfc) each(normcdf) each(logb) each(sinpi) each(cospi)
#define WARPSCHOOL_EACH2(each) each(atan2) each(hypot) each(rhypot) each(fmod) each(remainder)
WARPSCHOOL_EACH1(WARPSCHOOL_FLOAT1)
WARPSCHOOL_EACH2(WARPSCHOOL_FLOAT2)
#ifdef WARPSCHOOL_FAST_MATH
WARPSCHOOL_DEVICE float sinf(float x) { return __sinf(x); }
WARPSCHOOL_DEVICE float cosf(float x) { return __cosf(x); }
WARPSCHOOL_DEVICE float tanf(float x) { return __tanf(x); }
WARPSCHOOL_DEVICE float powf(float x, float y) { return __powf(x, y); }
#else
WARPSCHOOL_FLOAT1(sin)
WARPSCHOOL_FLOAT1(cos)
WARPSCHOOL_FLOAT1(tan)
WARPSCHOOL_FLOAT2(pow)
#endif
WARPSCHOOL_DEVICE void sincosf(float x, float *sine, float *cosine) { *sine = sinf(x), *cosine = cosf(x); }
WARPSCHOOL_DEVICE float ldexpf(float x, int exponent) { return (float)ldexp((double)x, exponent); }
WARPSCHOOL_DEVICE float scalbnf(float x, int exponent) { return ldexpf(x, exponent); }
WARPSCHOOL_DEVICE float frexpf(float x, int *exponent) { return (float)frexp((double)x, exponent); }
WARPSCHOOL_DEVICE int ilogbf(float x) { return ilogb((double)x); }

// C++'s overloads for float
WARPSCHOOL_EACH1(WARPSCHOOL_OVERLOAD1)
WARPSCHOOL_EACH2(WARPSCHOOL_OVERLOAD2)
#define WARPSCHOOL_MORE1(each)                                                                                         \
  each(exp) each(exp2) each(exp10) each(log) each(log2) each(log10) each(sin) each(cos) each(tan) each(sqrt)           \
      each(rsqrt) each(fabs) each(floor) each(ceil) each(trunc) each(rint) each(nearbyint) each(round)
WARPSCHOOL_MORE1(WARPSCHOOL_OVERLOAD1)
WARPSCHOOL_OVERLOAD2(pow)
WARPSCHOOL_OVERLOAD2(fmax)
WARPSCHOOL_OVERLOAD2(fmin)
WARPSCHOOL_OVERLOAD2(fdim)
WARPSCHOOL_OVERLOAD2(copysign)
WARPSCHOOL_DEVICE float fma(float a, float b, float c) { return fmaf(a, b, c); }
WARPSCHOOL_DEVICE float ldexp(float x, int exponent) { return ldexpf(x, exponent); }
WARPSCHOOL_DEVICE float pow(float x, int y) { return powf(x, (float)y); }
WARPSCHOOL_DEVICE double pow(double x, int y) { return pow(x, (double)y); }
// of an integer they are those of double
#define WARPSCHOOL_INTEGER1(name)                                                                                      \
  WARPSCHOOL_DEVICE double name(int x) { return name((double)x); }
WARPSCHOOL_MORE1(WARPSCHOOL_INTEGER1)
#undef WARPSCHOOL_INTEGER1
#undef WARPSCHOOL_MORE1
#undef WARPSCHOOL_EACH1
#undef WARPSCHOOL_EACH2
#undef WARPSCHOOL_OVERLOAD1
#undef WARPSCHOOL_OVERLOAD2
#undef WARPSCHOOL_FLOAT1
#undef WARPSCHOOL_FLOAT2
