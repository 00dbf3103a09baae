// float.h: arithmetic of float and double that is one instruction, or a few: rounding, conversion, classes.
// CUDA Math API; PTX ISA 9.7.3 to 9.7.5. What is told to round to nearest (`_rn`) is never joined to a fused product.
#pragma once
#include "integer.h"

// ---------------------------------------------------------------- one instruction with its rounding

#define WARPSCHOOL_OP1(name, type, c, instruction)                                                                     \
  WARPSCHOOL_DEVICE type name(type a) {                                                                                \
    type result;                                                                                                       \
    asm(instruction " %0, %1;" : "=" c(result) : c(a));                                                                \
    return result;                                                                                                     \
  }
#define WARPSCHOOL_OP2(name, type, c, instruction)                                                                     \
  WARPSCHOOL_DEVICE type name(type a, type b) {                                                                        \
    type result;                                                                                                       \
    asm(instruction " %0, %1, %2;" : "=" c(result) : c(a), c(b));                                                      \
    return result;                                                                                                     \
  }
#define WARPSCHOOL_OP3(name, type, c, instruction)                                                                     \
  WARPSCHOOL_DEVICE type name(type a, type b, type d) {                                                                \
    type result;                                                                                                       \
    asm(instruction " %0, %1, %2, %3;" : "=" c(result) : c(a), c(b), c(d));                                            \
    return result;                                                                                                     \
  }
#define WARPSCHOOL_ROUNDED(mode, r)                                                                                    \
  WARPSCHOOL_OP2(__fadd_##r, float, "f", "add." mode ".f32")                                                           \
  WARPSCHOOL_OP2(__fsub_##r, float, "f", "sub." mode ".f32")                                                           \
  WARPSCHOOL_OP2(__fmul_##r, float, "f", "mul." mode ".f32")                                                           \
  WARPSCHOOL_OP2(__fdiv_##r, float, "f", "div." mode ".f32")                                                           \
  WARPSCHOOL_OP3(__fmaf_##r, float, "f", "fma." mode ".f32")                                                           \
  WARPSCHOOL_OP1(__frcp_##r, float, "f", "rcp." mode ".f32")                                                           \
  WARPSCHOOL_OP1(__fsqrt_##r, float, "f", "sqrt." mode ".f32")                                                         \
  WARPSCHOOL_OP2(__dadd_##r, double, "d", "add." mode ".f64")                                                          \
  WARPSCHOOL_OP2(__dsub_##r, double, "d", "sub." mode ".f64")                                                          \
  WARPSCHOOL_OP2(__dmul_##r, double, "d", "mul." mode ".f64")                                                          \
  WARPSCHOOL_OP2(__ddiv_##r, double, "d", "div." mode ".f64")                                                          \
  WARPSCHOOL_OP3(__fma_##r, double, "d", "fma." mode ".f64")                                                           \
  WARPSCHOOL_OP1(__drcp_##r, double, "d", "rcp." mode ".f64")                                                          \
  WARPSCHOOL_OP1(__dsqrt_##r, double, "d", "sqrt." mode ".f64")
WARPSCHOOL_ROUNDED("rn", rn)
WARPSCHOOL_ROUNDED("rz", rz)
WARPSCHOOL_ROUNDED("ru", ru)
WARPSCHOOL_ROUNDED("rd", rd)
#undef WARPSCHOOL_ROUNDED

#ifdef WARPSCHOOL_FTZ
#define WARPSCHOOL_APPROX(name) name ".approx.ftz.f32"
#else
#define WARPSCHOOL_APPROX(name) name ".approx.f32"
#endif
WARPSCHOOL_OP1(warpschool_ex2, float, "f", WARPSCHOOL_APPROX("ex2"))
WARPSCHOOL_OP1(warpschool_lg2, float, "f", WARPSCHOOL_APPROX("lg2"))
WARPSCHOOL_OP1(__sinf, float, "f", WARPSCHOOL_APPROX("sin"))
WARPSCHOOL_OP1(__cosf, float, "f", WARPSCHOOL_APPROX("cos"))
WARPSCHOOL_OP1(__tanhf, float, "f", "tanh.approx.f32")
WARPSCHOOL_OP1(rsqrtf, float, "f", WARPSCHOOL_APPROX("rsqrt"))
WARPSCHOOL_OP1(__frsqrt_rn, float, "f", "rsqrt.approx.f32")
WARPSCHOOL_OP2(__fdividef, float, "f", WARPSCHOOL_APPROX("div"))
WARPSCHOOL_OP1(__saturatef, float, "f", "cvt.sat.f32.f32")

// ---------------------------------------------------------------- plain arithmetic

#define WARPSCHOOL_PLAIN(name, suffix, type)                                                                           \
  WARPSCHOOL_DEVICE type name##suffix(type a) { return __builtin_##name##suffix(a); }
#define WARPSCHOOL_PLAIN_BOTH(name)                                                                                    \
  WARPSCHOOL_PLAIN(name, f, float)                                                                                     \
  WARPSCHOOL_PLAIN(name, , double)
WARPSCHOOL_PLAIN_BOTH(fabs)
WARPSCHOOL_PLAIN_BOTH(floor)
WARPSCHOOL_PLAIN_BOTH(ceil)
WARPSCHOOL_PLAIN_BOTH(trunc)
WARPSCHOOL_PLAIN_BOTH(rint)
WARPSCHOOL_PLAIN_BOTH(nearbyint)
WARPSCHOOL_PLAIN_BOTH(sqrt)
#undef WARPSCHOOL_PLAIN_BOTH
#undef WARPSCHOOL_PLAIN
WARPSCHOOL_DEVICE float fmaxf(float a, float b) { return __nvvm_fmax_f(a, b); }
WARPSCHOOL_DEVICE float fminf(float a, float b) { return __nvvm_fmin_f(a, b); }
WARPSCHOOL_DEVICE double fmax(double a, double b) { return __nvvm_fmax_d(a, b); }
WARPSCHOOL_DEVICE double fmin(double a, double b) { return __nvvm_fmin_d(a, b); }
WARPSCHOOL_DEVICE float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
WARPSCHOOL_DEVICE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
WARPSCHOOL_DEVICE float copysignf(float a, float b) { return __builtin_copysignf(a, b); }
WARPSCHOOL_DEVICE double copysign(double a, double b) { return __builtin_copysign(a, b); }
WARPSCHOOL_DEVICE float fdividef(float a, float b) { return a / b; }
WARPSCHOOL_DEVICE double rsqrt(double a) { return 1.0 / __builtin_sqrt(a); }
WARPSCHOOL_DEVICE float fdimf(float a, float b) { return a <= b ? 0.0f : a - b; }
WARPSCHOOL_DEVICE double fdim(double a, double b) { return a <= b ? 0.0 : a - b; }
WARPSCHOOL_DEVICE float roundf(float a) { // halves away from zero
  float whole = truncf(a);
  return copysignf(fabsf(a - whole) >= 0.5f ? whole + copysignf(1.0f, a) : whole, a);
}
WARPSCHOOL_DEVICE double round(double a) {
  double whole = trunc(a);
  return copysign(fabs(a - whole) >= 0.5 ? whole + copysign(1.0, a) : whole, a);
}
WARPSCHOOL_DEVICE long lroundf(float a) { return (long)roundf(a); }
WARPSCHOOL_DEVICE long lround(double a) { return (long)round(a); }
WARPSCHOOL_DEVICE long lrintf(float a) { return (long)rintf(a); }
WARPSCHOOL_DEVICE long lrint(double a) { return (long)rint(a); }
WARPSCHOOL_DEVICE long long llrintf(float a) { return (long long)rintf(a); }
WARPSCHOOL_DEVICE float modff(float a, float *whole) {
  *whole = truncf(a);
  return copysignf(__builtin_isinf(a) ? 0.0f : a - *whole, a);
}
WARPSCHOOL_DEVICE double modf(double a, double *whole) {
  *whole = trunc(a);
  return copysign(__builtin_isinf(a) ? 0.0 : a - *whole, a);
}
#define WARPSCHOOL_CLASS(name, type)                                                                                   \
  WARPSCHOOL_DEVICE bool name(type a) { return __builtin_##name(a); }
WARPSCHOOL_CLASS(isnan, float)
WARPSCHOOL_CLASS(isnan, double)
WARPSCHOOL_CLASS(isinf, float)
WARPSCHOOL_CLASS(isinf, double)
WARPSCHOOL_CLASS(isfinite, float)
WARPSCHOOL_CLASS(isfinite, double)
WARPSCHOOL_CLASS(signbit, float)
WARPSCHOOL_CLASS(signbit, double)
#undef WARPSCHOOL_CLASS
WARPSCHOOL_DEVICE float nanf(const char *) { return __builtin_bit_cast(float, 0x7fffffff); }
WARPSCHOOL_DEVICE double nan(const char *) { return __builtin_bit_cast(double, 0x7fffffffffffffffLL); }

// ---------------------------------------------------------------- min, max, abs of mixed types

WARPSCHOOL_DEVICE float min(float a, float b) { return fminf(a, b); }
WARPSCHOOL_DEVICE float max(float a, float b) { return fmaxf(a, b); }
WARPSCHOOL_DEVICE double min(double a, double b) { return fmin(a, b); }
WARPSCHOOL_DEVICE double max(double a, double b) { return fmax(a, b); }
WARPSCHOOL_DEVICE double min(float a, double b) { return fmin(a, b); }
WARPSCHOOL_DEVICE double max(float a, double b) { return fmax(a, b); }
WARPSCHOOL_DEVICE double min(double a, float b) { return fmin(a, b); }
WARPSCHOOL_DEVICE double max(double a, float b) { return fmax(a, b); }
WARPSCHOOL_DEVICE float abs(float a) { return fabsf(a); }
WARPSCHOOL_DEVICE double abs(double a) { return fabs(a); }

// ---------------------------------------------------------------- conversions with their rounding

#define WARPSCHOOL_CVT(name, from, fc, to, tc, instruction)                                                            \
  WARPSCHOOL_DEVICE to name(from a) {                                                                                  \
    to result;                                                                                                         \
    asm("cvt." instruction " %0, %1;" : "=" tc(result) : fc(a));                                                       \
    return result;                                                                                                     \
  }
#define WARPSCHOOL_CVTS(i, f)                                                                                          \
  WARPSCHOOL_CVT(__float2int_##f, float, "f", int, "r", "r" i "i.s32.f32")                                             \
  WARPSCHOOL_CVT(__float2uint_##f, float, "f", unsigned int, "r", "r" i "i.u32.f32")                                   \
  WARPSCHOOL_CVT(__float2ll_##f, float, "f", long long, "l", "r" i "i.s64.f32")                                        \
  WARPSCHOOL_CVT(__float2ull_##f, float, "f", unsigned long long, "l", "r" i "i.u64.f32")                              \
  WARPSCHOOL_CVT(__double2int_##f, double, "d", int, "r", "r" i "i.s32.f64")                                           \
  WARPSCHOOL_CVT(__double2uint_##f, double, "d", unsigned int, "r", "r" i "i.u32.f64")                                 \
  WARPSCHOOL_CVT(__double2ll_##f, double, "d", long long, "l", "r" i "i.s64.f64")                                      \
  WARPSCHOOL_CVT(__double2ull_##f, double, "d", unsigned long long, "l", "r" i "i.u64.f64")                            \
  WARPSCHOOL_CVT(__double2float_##f, double, "d", float, "f", "r" i ".f32.f64")                                        \
  WARPSCHOOL_CVT(__int2float_##f, int, "r", float, "f", "r" i ".f32.s32")                                              \
  WARPSCHOOL_CVT(__uint2float_##f, unsigned int, "r", float, "f", "r" i ".f32.u32")                                    \
  WARPSCHOOL_CVT(__ll2float_##f, long long, "l", float, "f", "r" i ".f32.s64")                                         \
  WARPSCHOOL_CVT(__ull2float_##f, unsigned long long, "l", float, "f", "r" i ".f32.u64")                               \
  WARPSCHOOL_CVT(__ll2double_##f, long long, "l", double, "d", "r" i ".f64.s64")                                       \
  WARPSCHOOL_CVT(__ull2double_##f, unsigned long long, "l", double, "d", "r" i ".f64.u64")
WARPSCHOOL_CVTS("n", rn)
WARPSCHOOL_CVTS("z", rz)
WARPSCHOOL_CVTS("p", ru)
WARPSCHOOL_CVTS("m", rd)
#undef WARPSCHOOL_CVTS
#undef WARPSCHOOL_CVT
WARPSCHOOL_DEVICE double __int2double_rn(int a) { return a; }
WARPSCHOOL_DEVICE double __uint2double_rn(unsigned int a) { return a; }
