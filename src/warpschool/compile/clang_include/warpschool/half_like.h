// half_like.h: what the two types of 16 bits, __half and __nv_bfloat16, have in common. Included once for each, with
//   WARPSCHOOL_T, WARPSCHOOL_T2   the types                    WARPSCHOOL_PTX     "f16" or "bf16"
//   WARPSCHOOL_ADD, _SUB, _MUL    the instructions of a sum, a difference, a product
// CUDA Math API, PTX ISA 9.7.4: every operation is the one instruction that it is named after, and rounds once.
#define WARPSCHOOL_BITS(a) __builtin_bit_cast(unsigned short, a)
#define WARPSCHOOL_BITS2(a) __builtin_bit_cast(unsigned int, a)
#define WARPSCHOOL_OF(bits) __builtin_bit_cast(WARPSCHOOL_T, (unsigned short)(bits))
#define WARPSCHOOL_OF2(bits) __builtin_bit_cast(WARPSCHOOL_T2, (unsigned int)(bits))

// ---------------------------------------------------------------- arithmetic: of one, and of two at once

#define WARPSCHOOL_ONE(name, instruction)                                                                              \
  WARPSCHOOL_DEVICE WARPSCHOOL_T name(WARPSCHOOL_T a) {                                                                \
    unsigned short result;                                                                                             \
    asm(instruction "." WARPSCHOOL_PTX " %0, %1;" : "=h"(result) : "h"(WARPSCHOOL_BITS(a)));                           \
    return WARPSCHOOL_OF(result);                                                                                      \
  }                                                                                                                    \
  WARPSCHOOL_DEVICE WARPSCHOOL_T2 name##2(WARPSCHOOL_T2 a) {                                                           \
    unsigned int result;                                                                                               \
    asm(instruction "." WARPSCHOOL_PTX "x2 %0, %1;" : "=r"(result) : "r"(WARPSCHOOL_BITS2(a)));                        \
    return WARPSCHOOL_OF2(result);                                                                                     \
  }
#define WARPSCHOOL_TWO(name, instruction)                                                                              \
  WARPSCHOOL_DEVICE WARPSCHOOL_T name(WARPSCHOOL_T a, WARPSCHOOL_T b) {                                                \
    unsigned short result;                                                                                             \
    asm(instruction "." WARPSCHOOL_PTX " %0, %1, %2;"                                                                  \
        : "=h"(result)                                                                                                 \
        : "h"(WARPSCHOOL_BITS(a)), "h"(WARPSCHOOL_BITS(b)));                                                           \
    return WARPSCHOOL_OF(result);                                                                                      \
  }                                                                                                                    \
  WARPSCHOOL_DEVICE WARPSCHOOL_T2 WARPSCHOOL_PAIR(name)(WARPSCHOOL_T2 a, WARPSCHOOL_T2 b) {                            \
    unsigned int result;                                                                                               \
    asm(instruction "." WARPSCHOOL_PTX "x2 %0, %1, %2;"                                                                \
        : "=r"(result)                                                                                                 \
        : "r"(WARPSCHOOL_BITS2(a)), "r"(WARPSCHOOL_BITS2(b)));                                                         \
    return WARPSCHOOL_OF2(result);                                                                                     \
  }
#define WARPSCHOOL_THREE(name, instruction)                                                                            \
  WARPSCHOOL_DEVICE WARPSCHOOL_T name(WARPSCHOOL_T a, WARPSCHOOL_T b, WARPSCHOOL_T c) {                                \
    unsigned short result;                                                                                             \
    asm(instruction "." WARPSCHOOL_PTX " %0, %1, %2, %3;"                                                              \
        : "=h"(result)                                                                                                 \
        : "h"(WARPSCHOOL_BITS(a)), "h"(WARPSCHOOL_BITS(b)), "h"(WARPSCHOOL_BITS(c)));                                  \
    return WARPSCHOOL_OF(result);                                                                                      \
  }                                                                                                                    \
  WARPSCHOOL_DEVICE WARPSCHOOL_T2 WARPSCHOOL_PAIR(name)(WARPSCHOOL_T2 a, WARPSCHOOL_T2 b, WARPSCHOOL_T2 c) {           \
    unsigned int result;                                                                                               \
    asm(instruction "." WARPSCHOOL_PTX "x2 %0, %1, %2, %3;"                                                            \
        : "=r"(result)                                                                                                 \
        : "r"(WARPSCHOOL_BITS2(a)), "r"(WARPSCHOOL_BITS2(b)), "r"(WARPSCHOOL_BITS2(c)));                               \
    return WARPSCHOOL_OF2(result);                                                                                     \
  }
#define WARPSCHOOL_PAIR(name) name##2
WARPSCHOOL_THREE(__hfma, "fma.rn")
WARPSCHOOL_ONE(__hneg, "neg")
WARPSCHOOL_ONE(__habs, "abs")
WARPSCHOOL_TWO(__hmin, "min")
WARPSCHOOL_TWO(__hmax, "max")
WARPSCHOOL_TWO(__hmin_nan, "min.NaN")
WARPSCHOOL_TWO(__hmax_nan, "max.NaN")
WARPSCHOOL_TWO(__hadd, WARPSCHOOL_ADD)
WARPSCHOOL_TWO(__hsub, WARPSCHOOL_SUB)
WARPSCHOOL_TWO(__hmul, WARPSCHOOL_MUL)
#undef WARPSCHOOL_PAIR
#define WARPSCHOOL_PAIR(name) WARPSCHOOL_PAIR_##name
#define WARPSCHOOL_PAIR___hadd_rn __hadd2_rn
#define WARPSCHOOL_PAIR___hsub_rn __hsub2_rn
#define WARPSCHOOL_PAIR___hmul_rn __hmul2_rn
#define WARPSCHOOL_PAIR___hfma_relu __hfma2_relu
WARPSCHOOL_TWO(__hadd_rn, WARPSCHOOL_ADD)
WARPSCHOOL_TWO(__hsub_rn, WARPSCHOOL_SUB)
WARPSCHOOL_TWO(__hmul_rn, WARPSCHOOL_MUL)
WARPSCHOOL_THREE(__hfma_relu, "fma.rn.relu")
#undef WARPSCHOOL_PAIR
#undef WARPSCHOOL_ONE
#undef WARPSCHOOL_TWO
#undef WARPSCHOOL_THREE

// ---------------------------------------------------------------- comparisons

// NaN is unordered: a comparison with it is false, and true where the name ends in u.
#define WARPSCHOOL_COMPARE(name, operation, test)                                                                      \
  WARPSCHOOL_DEVICE bool __h##name(WARPSCHOOL_T left, WARPSCHOOL_T right) {                                            \
    float a = (float)left, b = (float)right;                                                                           \
    return test;                                                                                                       \
  }                                                                                                                    \
  WARPSCHOOL_DEVICE WARPSCHOOL_T2 __h##name##2(WARPSCHOOL_T2 left, WARPSCHOOL_T2 right) {                              \
    return {WARPSCHOOL_T(__h##name(left.x, right.x) ? 1.0f : 0.0f),                                                    \
            WARPSCHOOL_T(__h##name(left.y, right.y) ? 1.0f : 0.0f)};                                                   \
  }                                                                                                                    \
  WARPSCHOOL_DEVICE unsigned int __h##name##2_mask(WARPSCHOOL_T2 left, WARPSCHOOL_T2 right) {                          \
    return (__h##name(left.x, right.x) ? 0xffffu : 0u) | (__h##name(left.y, right.y) ? 0xffff0000u : 0u);              \
  }                                                                                                                    \
  WARPSCHOOL_DEVICE bool __hb##name##2(WARPSCHOOL_T2 left, WARPSCHOOL_T2 right) {                                      \
    return __h##name(left.x, right.x) && __h##name(left.y, right.y);                                                   \
  }
WARPSCHOOL_COMPARE(eq, ==, a == b)
WARPSCHOOL_COMPARE(ne, !=, a < b || a > b)
WARPSCHOOL_COMPARE(lt, <, a < b)
WARPSCHOOL_COMPARE(le, <=, a <= b)
WARPSCHOOL_COMPARE(gt, >, a > b)
WARPSCHOOL_COMPARE(ge, >=, a >= b)
WARPSCHOOL_COMPARE(equ, ==, !(a < b || a > b))
WARPSCHOOL_COMPARE(neu, !=, a != b)
WARPSCHOOL_COMPARE(ltu, <, !(a >= b))
WARPSCHOOL_COMPARE(leu, <=, !(a > b))
WARPSCHOOL_COMPARE(gtu, >, !(a <= b))
WARPSCHOOL_COMPARE(geu, >=, !(a < b))
#undef WARPSCHOOL_COMPARE
WARPSCHOOL_DEVICE bool __hisnan(WARPSCHOOL_T a) { return isnan((float)a); }
WARPSCHOOL_DEVICE int __hisinf(WARPSCHOOL_T a) { return isinf((float)a) ? signbit((float)a) ? -1 : 1 : 0; }
WARPSCHOOL_DEVICE WARPSCHOOL_T __hdiv(WARPSCHOOL_T a, WARPSCHOOL_T b) { return WARPSCHOOL_T((float)a / (float)b); }
WARPSCHOOL_DEVICE WARPSCHOOL_T2 __h2div(WARPSCHOOL_T2 a, WARPSCHOOL_T2 b) {
  return {__hdiv(a.x, b.x), __hdiv(a.y, b.y)};
}
WARPSCHOOL_DEVICE WARPSCHOOL_T2 __lowhigh2highlow(WARPSCHOOL_T2 a) { return {a.y, a.x}; }
WARPSCHOOL_DEVICE float __low2float(WARPSCHOOL_T2 a) { return (float)a.x; }
WARPSCHOOL_DEVICE float __high2float(WARPSCHOOL_T2 a) { return (float)a.y; }

// ---------------------------------------------------------------- functions: computed in float, rounded once more

#define WARPSCHOOL_FUNCTION(name, expression)                                                                          \
  WARPSCHOOL_DEVICE WARPSCHOOL_T h##name(WARPSCHOOL_T value) {                                                         \
    float a = (float)value;                                                                                            \
    return WARPSCHOOL_T(expression);                                                                                   \
  }                                                                                                                    \
  WARPSCHOOL_DEVICE WARPSCHOOL_T2 h2##name(WARPSCHOOL_T2 value) { return {h##name(value.x), h##name(value.y)}; }
WARPSCHOOL_FUNCTION(sqrt, sqrtf(a))
WARPSCHOOL_FUNCTION(rsqrt, rsqrtf(a))
WARPSCHOOL_FUNCTION(rcp, 1.0f / a)
WARPSCHOOL_FUNCTION(exp, expf(a))
WARPSCHOOL_FUNCTION(exp2, exp2f(a))
WARPSCHOOL_FUNCTION(exp10, exp10f(a))
WARPSCHOOL_FUNCTION(log, logf(a))
WARPSCHOOL_FUNCTION(log2, log2f(a))
WARPSCHOOL_FUNCTION(log10, log10f(a))
WARPSCHOOL_FUNCTION(sin, sinf(a))
WARPSCHOOL_FUNCTION(cos, cosf(a))
WARPSCHOOL_FUNCTION(tanh, tanhf(a))
WARPSCHOOL_FUNCTION(floor, floorf(a))
WARPSCHOOL_FUNCTION(ceil, ceilf(a))
WARPSCHOOL_FUNCTION(trunc, truncf(a))
WARPSCHOOL_FUNCTION(rint, rintf(a))
#undef WARPSCHOOL_FUNCTION

// ---------------------------------------------------------------- operators

#define WARPSCHOOL_OPERATOR(sign, one, two)                                                                            \
  WARPSCHOOL_DEVICE WARPSCHOOL_T operator sign(WARPSCHOOL_T a, WARPSCHOOL_T b) { return one(a, b); }                   \
  WARPSCHOOL_DEVICE WARPSCHOOL_T2 operator sign(WARPSCHOOL_T2 a, WARPSCHOOL_T2 b) { return two(a, b); }                \
  WARPSCHOOL_DEVICE WARPSCHOOL_T &operator sign##=(WARPSCHOOL_T &a, WARPSCHOOL_T b) { return a = one(a, b); }          \
  WARPSCHOOL_DEVICE WARPSCHOOL_T2 &operator sign##=(WARPSCHOOL_T2 &a, WARPSCHOOL_T2 b) { return a = two(a, b); }
WARPSCHOOL_OPERATOR(+, __hadd, __hadd2)
WARPSCHOOL_OPERATOR(-, __hsub, __hsub2)
WARPSCHOOL_OPERATOR(*, __hmul, __hmul2)
WARPSCHOOL_OPERATOR(/, __hdiv, __h2div)
#undef WARPSCHOOL_OPERATOR
WARPSCHOOL_DEVICE WARPSCHOOL_T operator-(WARPSCHOOL_T a) { return __hneg(a); }
WARPSCHOOL_DEVICE WARPSCHOOL_T2 operator-(WARPSCHOOL_T2 a) { return __hneg2(a); }
WARPSCHOOL_DEVICE WARPSCHOOL_T operator+(WARPSCHOOL_T a) { return a; }
#define WARPSCHOOL_OPERATOR(sign, name)                                                                                \
  WARPSCHOOL_DEVICE bool operator sign(WARPSCHOOL_T a, WARPSCHOOL_T b) { return __h##name(a, b); }
WARPSCHOOL_OPERATOR(==, eq)
WARPSCHOOL_OPERATOR(!=, neu)
WARPSCHOOL_OPERATOR(<, lt)
WARPSCHOOL_OPERATOR(<=, le)
WARPSCHOOL_OPERATOR(>, gt)
WARPSCHOOL_OPERATOR(>=, ge)
#undef WARPSCHOOL_OPERATOR

// ---------------------------------------------------------------- shuffles, loads, atomics

#define WARPSCHOOL_SHUFFLE(name, lane)                                                                                 \
  WARPSCHOOL_DEVICE WARPSCHOOL_T name(unsigned int mask, WARPSCHOOL_T value, lane by, int width = 32) {                \
    return WARPSCHOOL_OF(name(mask, (unsigned int)WARPSCHOOL_BITS(value), by, width));                                 \
  }                                                                                                                    \
  WARPSCHOOL_DEVICE WARPSCHOOL_T2 name(unsigned int mask, WARPSCHOOL_T2 value, lane by, int width = 32) {              \
    return WARPSCHOOL_OF2(name(mask, WARPSCHOOL_BITS2(value), by, width));                                             \
  }
WARPSCHOOL_SHUFFLE(__shfl_sync, int)
WARPSCHOOL_SHUFFLE(__shfl_up_sync, unsigned int)
WARPSCHOOL_SHUFFLE(__shfl_down_sync, unsigned int)
WARPSCHOOL_SHUFFLE(__shfl_xor_sync, int)
#undef WARPSCHOOL_SHUFFLE
WARPSCHOOL_DEVICE WARPSCHOOL_T atomicAdd(WARPSCHOOL_T *p, WARPSCHOOL_T value) {
  unsigned short old;
  asm volatile("atom.add.noftz." WARPSCHOOL_PTX " %0, [%1], %2;"
               : "=h"(old)
               : "l"(p), "h"(WARPSCHOOL_BITS(value))
               : "memory");
  return WARPSCHOOL_OF(old);
}
WARPSCHOOL_DEVICE WARPSCHOOL_T2 atomicAdd(WARPSCHOOL_T2 *p, WARPSCHOOL_T2 value) {
  unsigned int old;
  asm volatile("atom.add.noftz." WARPSCHOOL_PTX "x2 %0, [%1], %2;"
               : "=r"(old)
               : "l"(p), "r"(WARPSCHOOL_BITS2(value))
               : "memory");
  return WARPSCHOOL_OF2(old);
}
#undef WARPSCHOOL_BITS
#undef WARPSCHOOL_BITS2
#undef WARPSCHOOL_OF
#undef WARPSCHOOL_OF2
