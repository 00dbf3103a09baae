// cuda_bf16.h: numbers of 16 bits with the exponent of a float: __nv_bfloat16, __nv_bfloat162.
// CUDA Math API. A number of 16 bits, the conversions that C++ sees, and the operations of half_like.h.
#pragma once
#include "warpschool/math.h"
#include "warpschool/warp.h"
#include "warpschool/memory.h"

struct __align__(2) __nv_bfloat16_raw {
  unsigned short x;
};
struct __align__(2) __nv_bfloat16 {
  using Value = __bf16;
  Value value;
  __nv_bfloat16() = default;
  WARPSCHOOL_METHOD __nv_bfloat16(__nv_bfloat16_raw from) : value(__builtin_bit_cast(Value, from.x)) {}
#define WARPSCHOOL_FROM(from)                                                                                          \
  WARPSCHOOL_METHOD __nv_bfloat16(from a) : value((Value)a) {}                                                         \
  WARPSCHOOL_METHOD __nv_bfloat16 &operator=(from a) {                                                                 \
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
  WARPSCHOOL_METHOD operator __nv_bfloat16_raw() const { return {__builtin_bit_cast(unsigned short, value)}; }
};
struct __align__(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
  __nv_bfloat162() = default;
  WARPSCHOOL_METHOD __nv_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) : x(x), y(y) {}
};
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

#define WARPSCHOOL_T __nv_bfloat16
#define WARPSCHOOL_T2 __nv_bfloat162
#define WARPSCHOOL_PTX "bf16"
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

WARPSCHOOL_BOTH __nv_bfloat16 __float2bfloat16(float a) { return __nv_bfloat16(a); }
WARPSCHOOL_BOTH __nv_bfloat16 __float2bfloat16_rn(float a) { return __nv_bfloat16(a); }
WARPSCHOOL_BOTH __nv_bfloat16 __double2bfloat16(double a) { return __nv_bfloat16(a); }
WARPSCHOOL_BOTH float __bfloat162float(__nv_bfloat16 a) { return (float)a; }
WARPSCHOOL_DEVICE unsigned short __bfloat16_as_ushort(__nv_bfloat16 a) { return __builtin_bit_cast(unsigned short, a); }
WARPSCHOOL_DEVICE short __bfloat16_as_short(__nv_bfloat16 a) { return __builtin_bit_cast(short, a); }
WARPSCHOOL_DEVICE __nv_bfloat16 __ushort_as_bfloat16(unsigned short a) { return __builtin_bit_cast(__nv_bfloat16, a); }
WARPSCHOOL_DEVICE __nv_bfloat16 __short_as_bfloat16(short a) { return __builtin_bit_cast(__nv_bfloat16, a); }
#define WARPSCHOOL_MODE(mode, ptx)                                                                                     \
  WARPSCHOOL_DEVICE int __bfloat162int_##mode(__nv_bfloat16 a) { return __float2int_##mode((float)a); }                \
  WARPSCHOOL_DEVICE unsigned int __bfloat162uint_##mode(__nv_bfloat16 a) { return __float2uint_##mode((float)a); }     \
  WARPSCHOOL_DEVICE long long __bfloat162ll_##mode(__nv_bfloat16 a) { return __float2ll_##mode((float)a); }
WARPSCHOOL_MODE(rn, "rn")
WARPSCHOOL_MODE(rz, "rz")
WARPSCHOOL_MODE(ru, "ru")
WARPSCHOOL_MODE(rd, "rd")
#undef WARPSCHOOL_MODE
WARPSCHOOL_DEVICE short __bfloat162short_rz(__nv_bfloat16 a) { return (short)__float2int_rz((float)a); }
WARPSCHOOL_DEVICE __nv_bfloat16 __int2bfloat16_rn(int a) { return __nv_bfloat16(a); }
WARPSCHOOL_DEVICE __nv_bfloat16 __uint2bfloat16_rn(unsigned int a) { return __nv_bfloat16(a); }
WARPSCHOOL_DEVICE __nv_bfloat16 __short2bfloat16_rn(short a) { return __nv_bfloat16(a); }
WARPSCHOOL_DEVICE __nv_bfloat16 __ushort2bfloat16_rn(unsigned short a) { return __nv_bfloat16(a); }
WARPSCHOOL_DEVICE __nv_bfloat16 __ll2bfloat16_rn(long long a) { return __nv_bfloat16(a); }

// ---------------------------------------------------------------- pairs

WARPSCHOOL_BOTH __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return __nv_bfloat162(x, y); }
WARPSCHOOL_BOTH __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return __nv_bfloat162(x, y); }
WARPSCHOOL_BOTH __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return __nv_bfloat162(a, a); }
WARPSCHOOL_BOTH __nv_bfloat162 __float2bfloat162_rn(float a) { return __nv_bfloat162(__nv_bfloat16(a), __nv_bfloat16(a)); }
WARPSCHOOL_BOTH __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return __nv_bfloat162(__nv_bfloat16(x), __nv_bfloat16(y)); }
WARPSCHOOL_BOTH __nv_bfloat162 __float22bfloat162_rn(float2 a) { return __nv_bfloat162(__nv_bfloat16(a.x), __nv_bfloat16(a.y)); }
WARPSCHOOL_BOTH float2 __bfloat1622float2(__nv_bfloat162 a) { return {(float)a.x, (float)a.y}; }
WARPSCHOOL_BOTH __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
WARPSCHOOL_BOTH __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }
WARPSCHOOL_BOTH __nv_bfloat162 __low2bfloat162(__nv_bfloat162 a) { return __nv_bfloat162(a.x, a.x); }
WARPSCHOOL_BOTH __nv_bfloat162 __high2bfloat162(__nv_bfloat162 a) { return __nv_bfloat162(a.y, a.y); }
WARPSCHOOL_BOTH __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(a.x, b.x); }
WARPSCHOOL_BOTH __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(a.y, b.y); }
