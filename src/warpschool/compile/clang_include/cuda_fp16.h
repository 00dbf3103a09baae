// cuda_fp16.h: numbers of 16 bits as IEEE 754 has them: __half, __half2.
// CUDA Math API. A number of 16 bits, the conversions that C++ sees, and the operations of half_like.h.
#pragma once
#include "warpschool/math.h"
#include "warpschool/warp.h"
#include "warpschool/memory.h"

struct __align__(2) __half_raw {
  unsigned short x;
};
struct __align__(2) __half {
  using Value = _Float16;
  Value value;
  __half() = default;
  WARPSCHOOL_METHOD __half(__half_raw from) : value(__builtin_bit_cast(Value, from.x)) {}
#define WARPSCHOOL_FROM(from)                                                                                          \
  WARPSCHOOL_METHOD __half(from a) : value((Value)a) {}                                                                \
  WARPSCHOOL_METHOD __half &operator=(from a) {                                                                        \
    value = (Value)a;                                                                                                  \
    return *this;                                                                                                      \
  }
  WARPSCHOOL_FROM(float)
  WARPSCHOOL_FROM(double)
  WARPSCHOOL_FROM(short)
  WARPSCHOOL_FROM(unsigned short)
  WARPSCHOOL_FROM(int)
  WARPSCHOOL_FROM(unsigned int)
  WARPSCHOOL_FROM(long long)
  WARPSCHOOL_FROM(unsigned long long)
#undef WARPSCHOOL_FROM
  WARPSCHOOL_METHOD operator float() const { return (float)value; }
  WARPSCHOOL_METHOD explicit operator int() const { return (int)(float)value; }
  WARPSCHOOL_METHOD explicit operator unsigned int() const { return (unsigned int)(float)value; }
  WARPSCHOOL_METHOD explicit operator bool() const { return (float)value != 0.0f; }
  WARPSCHOOL_METHOD operator __half_raw() const { return {__builtin_bit_cast(unsigned short, value)}; }
};
struct __align__(4) __half2 {
  __half x, y;
  __half2() = default;
  WARPSCHOOL_METHOD __half2(__half x, __half y) : x(x), y(y) {}
};
using half = __half;
using half2 = __half2;

#define WARPSCHOOL_T __half
#define WARPSCHOOL_T2 __half2
#define WARPSCHOOL_PTX "f16"
#define WARPSCHOOL_ADD "add"
#define WARPSCHOOL_SUB "sub"
#define WARPSCHOOL_MUL "mul"
#include "warpschool/half_like.h"
#undef WARPSCHOOL_T
#undef WARPSCHOOL_T2
#undef WARPSCHOOL_PTX
#undef WARPSCHOOL_ADD
#undef WARPSCHOOL_SUB
#undef WARPSCHOOL_MUL

// ---------------------------------------------------------------- names that say the type

WARPSCHOOL_BOTH __half __float2half(float a) { return __half(a); }
WARPSCHOOL_BOTH __half __float2half_rn(float a) { return __half(a); }
WARPSCHOOL_BOTH __half __double2half(double a) { return __half(a); }
WARPSCHOOL_BOTH float __half2float(__half a) { return (float)a; }
WARPSCHOOL_DEVICE unsigned short __half_as_ushort(__half a) { return __builtin_bit_cast(unsigned short, a); }
WARPSCHOOL_DEVICE short __half_as_short(__half a) { return __builtin_bit_cast(short, a); }
WARPSCHOOL_DEVICE __half __ushort_as_half(unsigned short a) { return __builtin_bit_cast(__half, a); }
WARPSCHOOL_DEVICE __half __short_as_half(short a) { return __builtin_bit_cast(__half, a); }
#define WARPSCHOOL_MODE(mode, ptx)                                                                                     \
  WARPSCHOOL_DEVICE int __half2int_##mode(__half a) { return __float2int_##mode((float)a); }                           \
  WARPSCHOOL_DEVICE unsigned int __half2uint_##mode(__half a) { return __float2uint_##mode((float)a); }                \
  WARPSCHOOL_DEVICE long long __half2ll_##mode(__half a) { return __float2ll_##mode((float)a); }
WARPSCHOOL_MODE(rn, "rn")
WARPSCHOOL_MODE(rz, "rz")
WARPSCHOOL_MODE(ru, "ru")
WARPSCHOOL_MODE(rd, "rd")
#undef WARPSCHOOL_MODE
WARPSCHOOL_DEVICE short __half2short_rz(__half a) { return (short)__float2int_rz((float)a); }
WARPSCHOOL_DEVICE __half __int2half_rn(int a) { return __half(a); }
WARPSCHOOL_DEVICE __half __uint2half_rn(unsigned int a) { return __half(a); }
WARPSCHOOL_DEVICE __half __short2half_rn(short a) { return __half(a); }
WARPSCHOOL_DEVICE __half __ushort2half_rn(unsigned short a) { return __half(a); }
WARPSCHOOL_DEVICE __half __ll2half_rn(long long a) { return __half(a); }
#define WARPSCHOOL_MODE(mode)                                                                                          \
  WARPSCHOOL_DEVICE __half __float2half_##mode(float a) {                                                              \
    unsigned short result;                                                                                             \
    asm("cvt." #mode ".f16.f32 %0, %1;" : "=h"(result) : "f"(a));                                                      \
    return __ushort_as_half(result);                                                                                   \
  }
WARPSCHOOL_MODE(rz)
WARPSCHOOL_MODE(rp)
WARPSCHOOL_MODE(rm)
#undef WARPSCHOOL_MODE
WARPSCHOOL_DEVICE __half __float2half_ru(float a) { return __float2half_rp(a); }
WARPSCHOOL_DEVICE __half __float2half_rd(float a) { return __float2half_rm(a); }

// ---------------------------------------------------------------- pairs

WARPSCHOOL_BOTH __half2 make_half2(__half x, __half y) { return __half2(x, y); }
WARPSCHOOL_BOTH __half2 __halves2half2(__half x, __half y) { return __half2(x, y); }
WARPSCHOOL_BOTH __half2 __half2half2(__half a) { return __half2(a, a); }
WARPSCHOOL_BOTH __half2 __float2half2_rn(float a) { return __half2(__half(a), __half(a)); }
WARPSCHOOL_BOTH __half2 __floats2half2_rn(float x, float y) { return __half2(__half(x), __half(y)); }
WARPSCHOOL_BOTH __half2 __float22half2_rn(float2 a) { return __half2(__half(a.x), __half(a.y)); }
WARPSCHOOL_BOTH float2 __half22float2(__half2 a) { return {(float)a.x, (float)a.y}; }
WARPSCHOOL_BOTH __half __low2half(__half2 a) { return a.x; }
WARPSCHOOL_BOTH __half __high2half(__half2 a) { return a.y; }
WARPSCHOOL_BOTH __half2 __low2half2(__half2 a) { return __half2(a.x, a.x); }
WARPSCHOOL_BOTH __half2 __high2half2(__half2 a) { return __half2(a.y, a.y); }
WARPSCHOOL_BOTH __half2 __lows2half2(__half2 a, __half2 b) { return __half2(a.x, b.x); }
WARPSCHOOL_BOTH __half2 __highs2half2(__half2 a, __half2 b) { return __half2(a.y, b.y); }
