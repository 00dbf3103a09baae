// mma.h: matrix products by tensor cores, nvcuda::wmma. CUDA Programming Guide, "Warp matrix functions"; PTX ISA 9.7.14.
// Fragments hold what PTX's registers hold, in their order.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major = 0, mem_col_major = 1 };
namespace precision {
struct tf32;
}

template <class T, int N> struct warpschool_storage {
  using element_type = T;
  using storage_element_type = T;
  static constexpr int num_elements = N;
  static constexpr int num_storage_elements = N;
  T x[N];
};
template <class Use, int m, int n, int k, class T, class Layout = void> struct fragment;

template <class Layout> constexpr int warpschool_column = -1;
template <> inline constexpr int warpschool_column<row_major> = 0;
template <> inline constexpr int warpschool_column<col_major> = 1;

WARPSCHOOL_DEVICE float __float_to_tf32(float a) {
  unsigned int bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(a));
  return __uint_as_float(bits);
}

template <class T, int N, class V> WARPSCHOOL_DEVICE void fill_fragment(warpschool_storage<T, N> &f, V value) {
#pragma unroll
  for (int i = 0; i < N; ++i) f.x[i] = (T)value;
}

// ---------------------------------------------------------------- one shape: loads, stores and products

// `count` elements of type T in `words` registers. The builtins want the layout as a constant.
#define WARPSCHOOL_LOAD(use, m, n, k, name, T, count, words, word, builtin)                                            \
  template <class Layout> struct fragment<use, m, n, k, name, Layout> : warpschool_storage<T, count> {};               \
  template <class Layout>                                                                                              \
  WARPSCHOOL_DEVICE void load_matrix_sync(fragment<use, m, n, k, name, Layout> &f, const T *p, unsigned int ld) {      \
    word bits[words];                                                                                                  \
    builtin(bits, (const word *)p, ld, warpschool_column<Layout>);                                                     \
    __builtin_memcpy(f.x, bits, sizeof bits);                                                                          \
  }
#define WARPSCHOOL_ACCUMULATOR(m, n, k, T, count, words, word, load, store)                                            \
  template <> struct fragment<accumulator, m, n, k, T, void> : warpschool_storage<T, count> {};                        \
  WARPSCHOOL_DEVICE void load_matrix_sync(                                                                             \
      fragment<accumulator, m, n, k, T> &f, const T *p, unsigned int ld, layout_t layout) {                            \
    word bits[words];                                                                                                  \
    if (layout == mem_row_major) load(bits, (const word *)p, ld, 0);                                                   \
    else load(bits, (const word *)p, ld, 1);                                                                           \
    __builtin_memcpy(f.x, bits, sizeof bits);                                                                          \
  }                                                                                                                    \
  WARPSCHOOL_DEVICE void store_matrix_sync(                                                                            \
      T *p, const fragment<accumulator, m, n, k, T> &f, unsigned int ld, layout_t layout) {                            \
    word bits[words];                                                                                                  \
    __builtin_memcpy(bits, f.x, sizeof bits);                                                                          \
    if (layout == mem_row_major) store((word *)p, bits, ld, 0);                                                        \
    else store((word *)p, bits, ld, 1);                                                                                \
  }
#define WARPSCHOOL_PRODUCT(m, n, k, name, a_words, b_words, in_word, D, C, d_words, d_word, c_words, c_word, ...)      \
  template <class LayoutA, class LayoutB>                                                                              \
  WARPSCHOOL_DEVICE void mma_sync(                                                                                     \
      fragment<accumulator, m, n, k, D> &d, const fragment<matrix_a, m, n, k, name, LayoutA> &a,                       \
      const fragment<matrix_b, m, n, k, name, LayoutB> &b, const fragment<accumulator, m, n, k, C> &c) {               \
    constexpr int layout = 2 * warpschool_column<LayoutA> + warpschool_column<LayoutB>;                                \
    in_word a_bits[a_words], b_bits[b_words];                                                                          \
    c_word c_bits[c_words];                                                                                            \
    d_word d_bits[d_words];                                                                                            \
    __builtin_memcpy(a_bits, a.x, sizeof a_bits);                                                                      \
    __builtin_memcpy(b_bits, b.x, sizeof b_bits);                                                                      \
    __builtin_memcpy(c_bits, c.x, sizeof c_bits);                                                                      \
    __VA_ARGS__;                                                                                                       \
    __builtin_memcpy(d.x, d_bits, sizeof d_bits);                                                                      \
  }
#define WARPSCHOOL_HALF(m, n, k, shape)                                                                                \
  WARPSCHOOL_LOAD(matrix_a, m, n, k, __half, __half, 16, 8, int, __hmma_##shape##_ld_a)                                \
  WARPSCHOOL_LOAD(matrix_b, m, n, k, __half, __half, 16, 8, int, __hmma_##shape##_ld_b)                                \
  WARPSCHOOL_ACCUMULATOR(m, n, k, float, 8, 8, float, __hmma_##shape##_ld_c_f32, __hmma_##shape##_st_c_f32)            \
  WARPSCHOOL_ACCUMULATOR(m, n, k, __half, 8, 4, int, __hmma_##shape##_ld_c_f16, __hmma_##shape##_st_c_f16)             \
  WARPSCHOOL_ACCUMULATOR(m, n, k, int, 8, 8, int, __imma_##shape##_ld_c, __imma_##shape##_st_c_i32)                    \
  WARPSCHOOL_PRODUCT(m, n, k, __half, 8, 8, int, float, float, 8, float, 8, float,                                     \
                     __hmma_##shape##_mma_f32f32(d_bits, a_bits, b_bits, c_bits, layout, 0))                           \
  WARPSCHOOL_PRODUCT(m, n, k, __half, 8, 8, int, __half, __half, 4, int, 4, int,                                       \
                     __hmma_##shape##_mma_f16f16(d_bits, a_bits, b_bits, c_bits, layout, 0))                           \
  WARPSCHOOL_PRODUCT(m, n, k, __half, 8, 8, int, float, __half, 8, float, 4, int,                                      \
                     __hmma_##shape##_mma_f32f16(d_bits, a_bits, b_bits, c_bits, layout, 0))                           \
  WARPSCHOOL_PRODUCT(m, n, k, __half, 8, 8, int, __half, float, 4, int, 8, float,                                      \
                     __hmma_##shape##_mma_f16f32(d_bits, a_bits, b_bits, c_bits, layout, 0))
WARPSCHOOL_HALF(16, 16, 16, m16n16k16)
WARPSCHOOL_HALF(32, 8, 16, m32n8k16)
WARPSCHOOL_HALF(8, 32, 16, m8n32k16)
#undef WARPSCHOOL_HALF

// Integers of 8 bits and bfloat16: one table of registers for both, by shape.
#define WARPSCHOOL_BYTES(m, n, k, shape, T, t, a_words, b_words)                                                       \
  WARPSCHOOL_LOAD(matrix_a, m, n, k, T, T, 4 * a_words, a_words, int, __imma_##shape##_ld_a_##t)                       \
  WARPSCHOOL_LOAD(matrix_b, m, n, k, T, T, 4 * b_words, b_words, int, __imma_##shape##_ld_b_##t)                       \
  WARPSCHOOL_PRODUCT(m, n, k, T, a_words, b_words, int, int, int, 8, int, 8, int,                                      \
                     __imma_##shape##_mma_##t(d_bits, a_bits, b_bits, c_bits, layout, 0))
#define WARPSCHOOL_BFLOAT(m, n, k, shape, a_words, b_words)                                                            \
  WARPSCHOOL_LOAD(matrix_a, m, n, k, __nv_bfloat16, __nv_bfloat16, 2 * a_words, a_words, int, __mma_bf16_##shape##_ld_a) \
  WARPSCHOOL_LOAD(matrix_b, m, n, k, __nv_bfloat16, __nv_bfloat16, 2 * b_words, b_words, int, __mma_bf16_##shape##_ld_b) \
  WARPSCHOOL_PRODUCT(m, n, k, __nv_bfloat16, a_words, b_words, int, float, float, 8, float, 8, float,                  \
                     __mma_bf16_##shape##_mma_f32(d_bits, a_bits, b_bits, c_bits, layout, 0))
#define WARPSCHOOL_NARROW(m, n, k, shape, a_words, b_words)                                                            \
  WARPSCHOOL_BYTES(m, n, k, shape, signed char, s8, a_words, b_words)                                                  \
  WARPSCHOOL_BYTES(m, n, k, shape, unsigned char, u8, a_words, b_words)                                                \
  WARPSCHOOL_BFLOAT(m, n, k, shape, 2 * a_words, 2 * b_words)
WARPSCHOOL_NARROW(16, 16, 16, m16n16k16, 2, 2)
WARPSCHOOL_NARROW(32, 8, 16, m32n8k16, 4, 1)
WARPSCHOOL_NARROW(8, 32, 16, m8n32k16, 1, 4)
#undef WARPSCHOOL_NARROW
#undef WARPSCHOOL_BFLOAT
#undef WARPSCHOOL_BYTES

// tf32 and double
WARPSCHOOL_LOAD(matrix_a, 16, 16, 8, precision::tf32, float, 4, 4, int, __mma_tf32_m16n16k8_ld_a)
WARPSCHOOL_LOAD(matrix_b, 16, 16, 8, precision::tf32, float, 4, 4, int, __mma_tf32_m16n16k8_ld_b)
WARPSCHOOL_ACCUMULATOR(16, 16, 8, float, 8, 8, float, __mma_tf32_m16n16k8_ld_c, __mma_m16n16k8_st_c_f32)
WARPSCHOOL_PRODUCT(16, 16, 8, precision::tf32, 4, 4, int, float, float, 8, float, 8, float,
                   __mma_tf32_m16n16k8_mma_f32(d_bits, a_bits, b_bits, c_bits, layout, 0))
WARPSCHOOL_LOAD(matrix_a, 8, 8, 4, double, double, 1, 1, double, __dmma_m8n8k4_ld_a)
WARPSCHOOL_LOAD(matrix_b, 8, 8, 4, double, double, 1, 1, double, __dmma_m8n8k4_ld_b)
WARPSCHOOL_ACCUMULATOR(8, 8, 4, double, 2, 2, double, __dmma_m8n8k4_ld_c, __dmma_m8n8k4_st_c_f64)
WARPSCHOOL_PRODUCT(8, 8, 4, double, 1, 1, double, double, double, 2, double, 2, double,
                   __dmma_m8n8k4_mma_f64(d_bits, a_bits, b_bits, c_bits, layout, 0))
#undef WARPSCHOOL_PRODUCT
#undef WARPSCHOOL_ACCUMULATOR
#undef WARPSCHOOL_LOAD

} // namespace wmma
} // namespace nvcuda
