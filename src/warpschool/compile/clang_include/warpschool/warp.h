// warp.h: barriers, fences, shuffles, votes, matches, reductions of a warp. PTX ISA 9.7.9 and 9.7.13.
#pragma once
#include "language.h"

WARPSCHOOL_DEVICE void __syncwarp(unsigned int mask = 0xffffffffu) { __nvvm_bar_warp_sync(mask); }
WARPSCHOOL_DEVICE void __threadfence_block() { __nvvm_membar_cta(); }
WARPSCHOOL_DEVICE void __threadfence() { __nvvm_membar_gl(); }
WARPSCHOOL_DEVICE void __threadfence_system() { __nvvm_membar_sys(); }
WARPSCHOOL_DEVICE int __syncthreads_count(int predicate) { return __nvvm_bar0_popc(predicate); }
WARPSCHOOL_DEVICE int __syncthreads_and(int predicate) { return __nvvm_bar0_and(predicate); }
WARPSCHOOL_DEVICE int __syncthreads_or(int predicate) { return __nvvm_bar0_or(predicate); }
WARPSCHOOL_DEVICE unsigned int __activemask() {
  unsigned int mask;
  asm volatile("activemask.b32 %0;" : "=r"(mask));
  return mask;
}
WARPSCHOOL_DEVICE unsigned int __lane_id() { return __nvvm_read_ptx_sreg_laneid(); }

// ---------------------------------------------------------------- votes

WARPSCHOOL_DEVICE unsigned int __ballot_sync(unsigned int mask, int p) { return __nvvm_vote_ballot_sync(mask, p); }
WARPSCHOOL_DEVICE int __any_sync(unsigned int mask, int p) { return __nvvm_vote_any_sync(mask, p); }
WARPSCHOOL_DEVICE int __all_sync(unsigned int mask, int p) { return __nvvm_vote_all_sync(mask, p); }
WARPSCHOOL_DEVICE int __uni_sync(unsigned int mask, int p) { return __nvvm_vote_uni_sync(mask, p); }

// ---------------------------------------------------------------- values as bits, 32 or 64 of them

template <class T> WARPSCHOOL_DEVICE unsigned int warpschool_bits32(T value) {
  static_assert(sizeof(T) == 4, "");
  return __builtin_bit_cast(unsigned int, value);
}
template <class T> WARPSCHOOL_DEVICE unsigned long long warpschool_bits64(T value) {
  return __builtin_bit_cast(unsigned long long, value);
}

// ---------------------------------------------------------------- shuffles

// The last operand holds the segment's mask and the bound of the source lane: 31 of the segment, 0 for `up`.
#define WARPSCHOOL_SHUFFLE32(name, builtin, bound, type, lane)                                                         \
  WARPSCHOOL_DEVICE type name(unsigned int mask, type value, lane by, int width = 32) {                                \
    return __builtin_bit_cast(                                                                                         \
        type, __nvvm_shfl_sync_##builtin##_i32(mask, (int)warpschool_bits32(value), (int)by, (32 - width) << 8 | bound)); \
  }
#define WARPSCHOOL_SHUFFLE64(name, type, lane)                                                                         \
  WARPSCHOOL_DEVICE type name(unsigned int mask, type value, lane by, int width = 32) {                                \
    unsigned long long bits = warpschool_bits64(value);                                                                \
    unsigned int low = name(mask, (unsigned int)bits, by, width);                                                      \
    unsigned int high = name(mask, (unsigned int)(bits >> 32), by, width);                                             \
    return __builtin_bit_cast(type, (unsigned long long)high << 32 | low);                                             \
  }
#define WARPSCHOOL_SHUFFLE(name, builtin, bound, lane)                                                                 \
  WARPSCHOOL_SHUFFLE32(name, builtin, bound, int, lane)                                                                \
  WARPSCHOOL_SHUFFLE32(name, builtin, bound, unsigned int, lane)                                                       \
  WARPSCHOOL_SHUFFLE32(name, builtin, bound, float, lane)                                                              \
  WARPSCHOOL_SHUFFLE64(name, long long, lane)                                                                          \
  WARPSCHOOL_SHUFFLE64(name, unsigned long long, lane)                                                                 \
  WARPSCHOOL_SHUFFLE64(name, long, lane)                                                                               \
  WARPSCHOOL_SHUFFLE64(name, unsigned long, lane)                                                                      \
  WARPSCHOOL_SHUFFLE64(name, double, lane)
WARPSCHOOL_SHUFFLE(__shfl_sync, idx, 31, int)
WARPSCHOOL_SHUFFLE(__shfl_up_sync, up, 0, unsigned int)
WARPSCHOOL_SHUFFLE(__shfl_down_sync, down, 31, unsigned int)
WARPSCHOOL_SHUFFLE(__shfl_xor_sync, bfly, 31, int)
#undef WARPSCHOOL_SHUFFLE
#undef WARPSCHOOL_SHUFFLE64
#undef WARPSCHOOL_SHUFFLE32

// ---------------------------------------------------------------- matches and reductions

#define WARPSCHOOL_MATCH(type, bits, width)                                                                            \
  WARPSCHOOL_DEVICE unsigned int __match_any_sync(unsigned int mask, type value) {                                     \
    return (unsigned int)__nvvm_match_any_sync_i##width(mask, bits(value));                                            \
  }                                                                                                                    \
  WARPSCHOOL_DEVICE unsigned int __match_all_sync(unsigned int mask, type value, int *agree) {                         \
    return (unsigned int)__nvvm_match_all_sync_i##width##p(mask, bits(value), agree);                                  \
  }
WARPSCHOOL_MATCH(int, warpschool_bits32, 32)
WARPSCHOOL_MATCH(unsigned int, warpschool_bits32, 32)
WARPSCHOOL_MATCH(float, warpschool_bits32, 32)
WARPSCHOOL_MATCH(long long, warpschool_bits64, 64)
WARPSCHOOL_MATCH(unsigned long long, warpschool_bits64, 64)
WARPSCHOOL_MATCH(long, warpschool_bits64, 64)
WARPSCHOOL_MATCH(unsigned long, warpschool_bits64, 64)
WARPSCHOOL_MATCH(double, warpschool_bits64, 64)
#undef WARPSCHOOL_MATCH

#define WARPSCHOOL_REDUX(name, operation, type, suffix)                                                                \
  WARPSCHOOL_DEVICE type name(unsigned int mask, type value) {                                                         \
    type result;                                                                                                       \
    asm volatile("redux.sync." operation "." suffix " %0, %1, %2;" : "=r"(result) : "r"(value), "r"(mask));            \
    return result;                                                                                                     \
  }
WARPSCHOOL_REDUX(__reduce_add_sync, "add", unsigned int, "u32")
WARPSCHOOL_REDUX(__reduce_add_sync, "add", int, "s32")
WARPSCHOOL_REDUX(__reduce_min_sync, "min", unsigned int, "u32")
WARPSCHOOL_REDUX(__reduce_min_sync, "min", int, "s32")
WARPSCHOOL_REDUX(__reduce_max_sync, "max", unsigned int, "u32")
WARPSCHOOL_REDUX(__reduce_max_sync, "max", int, "s32")
WARPSCHOOL_REDUX(__reduce_and_sync, "and", unsigned int, "b32")
WARPSCHOOL_REDUX(__reduce_or_sync, "or", unsigned int, "b32")
WARPSCHOOL_REDUX(__reduce_xor_sync, "xor", unsigned int, "b32")
#undef WARPSCHOOL_REDUX
