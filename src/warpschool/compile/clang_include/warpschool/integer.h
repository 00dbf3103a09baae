// integer.h: integers' bits, products, packed arithmetic, min and max, values as other types. CUDA Math API.
#pragma once
#include "language.h"

// ---------------------------------------------------------------- bits

WARPSCHOOL_DEVICE int __popc(unsigned int x) { return __builtin_popcount(x); }
WARPSCHOOL_DEVICE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
WARPSCHOOL_DEVICE int __clz(int x) { return __builtin_clzg((unsigned int)x, 32); }
WARPSCHOOL_DEVICE int __clzll(long long x) { return __builtin_clzg((unsigned long long)x, 64); }
WARPSCHOOL_DEVICE int __ffs(int x) { return __builtin_ffs(x); }
WARPSCHOOL_DEVICE int __ffsll(long long x) { return __builtin_ffsll(x); }
WARPSCHOOL_DEVICE unsigned int __brev(unsigned int x) { return __builtin_bitreverse32(x); }
WARPSCHOOL_DEVICE unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
WARPSCHOOL_DEVICE unsigned int __byte_perm(unsigned int a, unsigned int b, unsigned int selector) {
  unsigned int result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(selector));
  return result;
}
WARPSCHOOL_DEVICE unsigned int __fns(unsigned int mask, unsigned int base, int offset) {
  unsigned int result;
  asm("fns.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(mask), "r"(base), "r"(offset));
  return result;
}
#define WARPSCHOOL_FUNNEL(name, direction, mode)                                                                       \
  WARPSCHOOL_DEVICE unsigned int name(unsigned int low, unsigned int high, unsigned int by) {                          \
    unsigned int result;                                                                                               \
    asm("shf." direction "." mode ".b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(by));               \
    return result;                                                                                                     \
  }
WARPSCHOOL_FUNNEL(__funnelshift_l, "l", "wrap")
WARPSCHOOL_FUNNEL(__funnelshift_lc, "l", "clamp")
WARPSCHOOL_FUNNEL(__funnelshift_r, "r", "wrap")
WARPSCHOOL_FUNNEL(__funnelshift_rc, "r", "clamp")
#undef WARPSCHOOL_FUNNEL

// ---------------------------------------------------------------- products and sums

WARPSCHOOL_DEVICE int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
WARPSCHOOL_DEVICE unsigned int __umulhi(unsigned int a, unsigned int b) { return (unsigned long long)a * b >> 32; }
WARPSCHOOL_DEVICE long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
WARPSCHOOL_DEVICE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
WARPSCHOOL_DEVICE int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
WARPSCHOOL_DEVICE unsigned int __umul24(unsigned int a, unsigned int b) { return (a & 0xffffff) * (b & 0xffffff); }
WARPSCHOOL_DEVICE unsigned int __sad(int a, int b, unsigned int c) { return c + (a < b ? b - a : a - b); }
WARPSCHOOL_DEVICE unsigned int __usad(unsigned int a, unsigned int b, unsigned int c) {
  return c + (a < b ? b - a : a - b);
}
WARPSCHOOL_DEVICE int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
WARPSCHOOL_DEVICE int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
WARPSCHOOL_DEVICE unsigned int __uhadd(unsigned int a, unsigned int b) { return ((unsigned long long)a + b) >> 1; }
#define WARPSCHOOL_DP(name, instruction, type)                                                                         \
  WARPSCHOOL_DEVICE type name(type a, type b, type c) {                                                                \
    type result;                                                                                                       \
    asm(instruction " %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));                                       \
    return result;                                                                                                     \
  }
WARPSCHOOL_DP(__dp4a, "dp4a.s32.s32", int)
WARPSCHOOL_DP(__dp4a, "dp4a.u32.u32", unsigned int)
WARPSCHOOL_DP(__dp2a_lo, "dp2a.lo.s32.s32", int)
WARPSCHOOL_DP(__dp2a_lo, "dp2a.lo.u32.u32", unsigned int)
WARPSCHOOL_DP(__dp2a_hi, "dp2a.hi.s32.s32", int)
WARPSCHOOL_DP(__dp2a_hi, "dp2a.hi.u32.u32", unsigned int)
#undef WARPSCHOOL_DP
template <class V> WARPSCHOOL_DEVICE unsigned int warpschool_packed(V v) { // four bytes in a register
  return (v.x & 255u) | (v.y & 255u) << 8 | (v.z & 255u) << 16 | (unsigned int)v.w << 24;
}
WARPSCHOOL_DEVICE int __dp4a(char4 a, char4 b, int c) {
  return __dp4a((int)warpschool_packed(a), (int)warpschool_packed(b), c);
}
WARPSCHOOL_DEVICE unsigned int __dp4a(uchar4 a, uchar4 b, unsigned int c) {
  return __dp4a(warpschool_packed(a), warpschool_packed(b), c);
}

// Two or four numbers in a register. Each result is that of the narrow type, whatever its neighbours are.
#define WARPSCHOOL_PACKED(name, lanes, scalar, expression)                                                             \
  WARPSCHOOL_DEVICE unsigned int name(unsigned int left, unsigned int right) {                                         \
    unsigned int result = 0;                                                                                           \
    constexpr int bits = 32 / lanes;                                                                                   \
    _Pragma("unroll") for (int lane = 0; lane < lanes; ++lane) {                                                       \
      int a = (scalar)(left >> bits * lane), b = (scalar)(right >> bits * lane);                                       \
      result |= ((unsigned int)(expression) & ((1u << bits) - 1)) << bits * lane;                                      \
    }                                                                                                                  \
    return result;                                                                                                     \
  }
#define WARPSCHOOL_PACKED_KIND(lanes, whole, part)                                                                     \
  WARPSCHOOL_PACKED(__vadd##lanes, lanes, part, a + b)                                                                 \
  WARPSCHOOL_PACKED(__vsub##lanes, lanes, part, a - b)                                                                 \
  WARPSCHOOL_PACKED(__vmaxs##lanes, lanes, whole, a > b ? a : b)                                                       \
  WARPSCHOOL_PACKED(__vmins##lanes, lanes, whole, a < b ? a : b)                                                       \
  WARPSCHOOL_PACKED(__vmaxu##lanes, lanes, part, a > b ? a : b)                                                        \
  WARPSCHOOL_PACKED(__vminu##lanes, lanes, part, a < b ? a : b)                                                        \
  WARPSCHOOL_PACKED(__vabsdiffu##lanes, lanes, part, a > b ? a - b : b - a)                                            \
  WARPSCHOOL_PACKED(__vcmpeq##lanes, lanes, part, a == b ? ~0 : 0)                                                     \
  WARPSCHOOL_PACKED(__vcmpgts##lanes, lanes, whole, a > b ? ~0 : 0)                                                    \
  WARPSCHOOL_PACKED(__vcmpgtu##lanes, lanes, part, a > b ? ~0 : 0)
WARPSCHOOL_PACKED_KIND(2, short, unsigned short)
WARPSCHOOL_PACKED_KIND(4, signed char, unsigned char)
#undef WARPSCHOOL_PACKED_KIND
#undef WARPSCHOOL_PACKED

// ---------------------------------------------------------------- min, max, abs

// CUDA's overloads for integers: of two signs or widths the result is unsigned, or the wider type.
#define WARPSCHOOL_MINMAX(left, right, type)                                                                           \
  WARPSCHOOL_BOTH constexpr type min(left a, right b) { return (type)a < (type)b ? (type)a : (type)b; }                \
  WARPSCHOOL_BOTH constexpr type max(left a, right b) { return (type)a > (type)b ? (type)a : (type)b; }
#define WARPSCHOOL_MINMAX3(sign, unsign)                                                                               \
  WARPSCHOOL_MINMAX(sign, sign, sign)                                                                                  \
  WARPSCHOOL_MINMAX(unsign, unsign, unsign)                                                                            \
  WARPSCHOOL_MINMAX(sign, unsign, unsign)                                                                              \
  WARPSCHOOL_MINMAX(unsign, sign, unsign)
WARPSCHOOL_MINMAX3(int, unsigned int)
WARPSCHOOL_MINMAX3(long, unsigned long)
WARPSCHOOL_MINMAX3(long long, unsigned long long)
#undef WARPSCHOOL_MINMAX3
#undef WARPSCHOOL_MINMAX
WARPSCHOOL_DEVICE unsigned int umin(unsigned int a, unsigned int b) { return min(a, b); }
WARPSCHOOL_DEVICE unsigned int umax(unsigned int a, unsigned int b) { return max(a, b); }
WARPSCHOOL_DEVICE long long llmin(long long a, long long b) { return min(a, b); }
WARPSCHOOL_DEVICE long long llmax(long long a, long long b) { return max(a, b); }
WARPSCHOOL_BOTH constexpr int abs(int a) { return a < 0 ? -a : a; }
WARPSCHOOL_BOTH constexpr long abs(long a) { return a < 0 ? -a : a; }
WARPSCHOOL_BOTH constexpr long long abs(long long a) { return a < 0 ? -a : a; }
WARPSCHOOL_BOTH constexpr long labs(long a) { return a < 0 ? -a : a; }
WARPSCHOOL_BOTH constexpr long long llabs(long long a) { return a < 0 ? -a : a; }

// ---------------------------------------------------------------- the same bits as another type

#define WARPSCHOOL_AS(name, from, to)                                                                                  \
  WARPSCHOOL_DEVICE to name(from value) { return __builtin_bit_cast(to, value); }
WARPSCHOOL_AS(__int_as_float, int, float)
WARPSCHOOL_AS(__uint_as_float, unsigned int, float)
WARPSCHOOL_AS(__float_as_int, float, int)
WARPSCHOOL_AS(__float_as_uint, float, unsigned int)
WARPSCHOOL_AS(__longlong_as_double, long long, double)
WARPSCHOOL_AS(__double_as_longlong, double, long long)
#undef WARPSCHOOL_AS
WARPSCHOOL_DEVICE int __double2hiint(double value) { return (int)(__double_as_longlong(value) >> 32); }
WARPSCHOOL_DEVICE int __double2loint(double value) { return (int)__double_as_longlong(value); }
WARPSCHOOL_DEVICE double __hiloint2double(int high, int low) {
  return __longlong_as_double((long long)high << 32 | (unsigned int)low);
}
