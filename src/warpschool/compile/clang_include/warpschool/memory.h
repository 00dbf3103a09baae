// memory.h: loads and stores with a cache's hint, conversions of addresses, atomics. PTX ISA 9.7.9 and 9.7.13.
#pragma once
#include "language.h"

#define WARPSCHOOL_IS(name, test)                                                                                      \
  WARPSCHOOL_DEVICE unsigned int name(const void *p) { return test(p); }
WARPSCHOOL_IS(__isGlobal, __nvvm_isspacep_global)
WARPSCHOOL_IS(__isShared, __nvvm_isspacep_shared)
WARPSCHOOL_IS(__isConstant, __nvvm_isspacep_const)
WARPSCHOOL_IS(__isLocal, __nvvm_isspacep_local)
#undef WARPSCHOOL_IS
WARPSCHOOL_DEVICE size_t __cvta_generic_to_shared(const void *p) { return (size_t)(WARPSCHOOL_SHARED const void *)p; }
WARPSCHOOL_DEVICE size_t __cvta_generic_to_global(const void *p) { return (size_t)(WARPSCHOOL_GLOBAL const void *)p; }
WARPSCHOOL_DEVICE void *__cvta_shared_to_generic(size_t p) { return (void *)(WARPSCHOOL_SHARED void *)p; }
WARPSCHOOL_DEVICE void *__cvta_global_to_generic(size_t p) { return (void *)(WARPSCHOOL_GLOBAL void *)p; }

// ---------------------------------------------------------------- hints: the value is what a plain access gives

// `ld.global.nc` for what the compiler knows to be read only is its own choice; a hint changes no value and no count.
#define WARPSCHOOL_LOAD(name)                                                                                          \
  template <class T> WARPSCHOOL_DEVICE T name(const T *p) { return *p; }
WARPSCHOOL_LOAD(__ldca)
WARPSCHOOL_LOAD(__ldcs)
WARPSCHOOL_LOAD(__ldlu)
WARPSCHOOL_LOAD(__ldcg)
WARPSCHOOL_LOAD(__ldg)
#undef WARPSCHOOL_LOAD
template <class T> WARPSCHOOL_DEVICE T __ldcv(const T *p) { return *(const volatile T *)p; }
#define WARPSCHOOL_STORE(name)                                                                                         \
  template <class T> WARPSCHOOL_DEVICE void name(T *p, T value) { *p = value; }
WARPSCHOOL_STORE(__stwb)
WARPSCHOOL_STORE(__stcg)
WARPSCHOOL_STORE(__stcs)
WARPSCHOOL_STORE(__stwt)
#undef WARPSCHOOL_STORE

// ---------------------------------------------------------------- atomics: relaxed, at the scope that the name says

#define WARPSCHOOL_ATOMIC(name, suffix, operation, type, scope)                                                        \
  WARPSCHOOL_DEVICE type name##suffix(type *p, type value) {                                                           \
    return __scoped_atomic_##operation(p, value, __ATOMIC_RELAXED, scope);                                             \
  }
#define WARPSCHOOL_CAS(suffix, type, scope)                                                                            \
  WARPSCHOOL_DEVICE type atomicCAS##suffix(type *p, type compare, type value) {                                        \
    __scoped_atomic_compare_exchange_n(p, &compare, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED, scope);          \
    return compare;                                                                                                    \
  }
#define WARPSCHOOL_WHOLE(suffix, type, scope)                                                                          \
  WARPSCHOOL_ATOMIC(atomicAdd, suffix, fetch_add, type, scope)                                                         \
  WARPSCHOOL_ATOMIC(atomicMin, suffix, fetch_min, type, scope)                                                         \
  WARPSCHOOL_ATOMIC(atomicMax, suffix, fetch_max, type, scope)                                                         \
  WARPSCHOOL_ATOMIC(atomicAnd, suffix, fetch_and, type, scope)                                                         \
  WARPSCHOOL_ATOMIC(atomicOr, suffix, fetch_or, type, scope)                                                           \
  WARPSCHOOL_ATOMIC(atomicXor, suffix, fetch_xor, type, scope)                                                         \
  WARPSCHOOL_ATOMIC(atomicExch, suffix, exchange_n, type, scope)                                                       \
  WARPSCHOOL_CAS(suffix, type, scope)
#define WARPSCHOOL_ATOMICS(suffix, scope, ptx)                                                                         \
  WARPSCHOOL_WHOLE(suffix, int, scope)                                                                                 \
  WARPSCHOOL_WHOLE(suffix, unsigned int, scope)                                                                        \
  WARPSCHOOL_WHOLE(suffix, unsigned long long, scope)                                                                  \
  WARPSCHOOL_WHOLE(suffix, long long, scope)                                                                           \
  WARPSCHOOL_ATOMIC(atomicSub, suffix, fetch_sub, int, scope)                                                          \
  WARPSCHOOL_ATOMIC(atomicSub, suffix, fetch_sub, unsigned int, scope)                                                 \
  WARPSCHOOL_ATOMIC(atomicAdd, suffix, fetch_add, float, scope)                                                        \
  WARPSCHOOL_ATOMIC(atomicAdd, suffix, fetch_add, double, scope)                                                       \
  WARPSCHOOL_CAS(suffix, unsigned short, scope)                                                                        \
  WARPSCHOOL_DEVICE float atomicExch##suffix(float *p, float value) {                                                  \
    unsigned int old = atomicExch##suffix((unsigned int *)p, __builtin_bit_cast(unsigned int, value));                 \
    return __builtin_bit_cast(float, old);                                                                             \
  }                                                                                                                    \
  WARPSCHOOL_DEVICE unsigned int atomicInc##suffix(unsigned int *p, unsigned int last) {                               \
    unsigned int old;                                                                                                  \
    asm volatile("atom" ptx ".inc.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(last) : "memory");                      \
    return old;                                                                                                        \
  }                                                                                                                    \
  WARPSCHOOL_DEVICE unsigned int atomicDec##suffix(unsigned int *p, unsigned int last) {                               \
    unsigned int old;                                                                                                  \
    asm volatile("atom" ptx ".dec.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(last) : "memory");                      \
    return old;                                                                                                        \
  }
WARPSCHOOL_ATOMICS(, __MEMORY_SCOPE_DEVICE, "")
WARPSCHOOL_ATOMICS(_block, __MEMORY_SCOPE_WRKGRP, ".cta")
WARPSCHOOL_ATOMICS(_system, __MEMORY_SCOPE_SYSTEM, ".sys")
#undef WARPSCHOOL_ATOMICS
#undef WARPSCHOOL_WHOLE
#undef WARPSCHOOL_CAS
#undef WARPSCHOOL_ATOMIC
