// language.h: what CUDA C++ adds to C++, spelled with clang's attributes: function and memory spaces, built-in
// vectors and variables. Written from the CUDA C++ Programming Guide; no line of NVIDIA's headers is in it.
#pragma once

#define __CUDACC__ 1
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((managed))
#define __grid_constant__ __attribute__((grid_constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __cluster_dims__(...) __attribute__((annotate("cluster_dims", __VA_ARGS__))) // clang.py writes it into the PTX
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __inline_hint__ __inline__
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __nv_is_extended_device_lambda_closure_type(type) false

#define WARPSCHOOL_DEVICE static __inline__ __attribute__((always_inline, device, nodebug))
#define WARPSCHOOL_BOTH static __inline__ __attribute__((always_inline, host, device, nodebug))
#define WARPSCHOOL_METHOD __inline__ __attribute__((always_inline, host, device, nodebug))

using size_t = decltype(sizeof(0));
using ptrdiff_t = decltype((char *)0 - (char *)0);

using cudaStream_t = struct CUstream_st *;

// An address space is named where PTX takes an address of that space alone.
#define WARPSCHOOL_GLOBAL __attribute__((address_space(1)))
#define WARPSCHOOL_SHARED __attribute__((address_space(3)))

// ---------------------------------------------------------------- vectors

// Structures, so that a source may take a component's address and declare operators of its own. A copy of one with an
// alignment of its own goes through one vector, which keeps it one access; `trivial_abi`: as a kernel's parameter it is
// passed as the structure that it is.
#define WARPSCHOOL_COPIED(name, scalar, count)                                                                    \
  using Whole = scalar __attribute__((ext_vector_type(count), may_alias));                                             \
  name() = default;                                                                                                    \
  WARPSCHOOL_METHOD name(const name &from) { *(Whole *)this = *(const Whole *)&from; }                                 \
  WARPSCHOOL_METHOD name &operator=(const name &from) {                                                                \
    *(Whole *)this = *(const Whole *)&from;                                                                            \
    return *this;                                                                                                      \
  }
#define WARPSCHOOL_VECTOR(scalar, name, align2, align4)                                                                \
  struct name##1 {                                                                                                     \
    scalar x;                                                                                                          \
  };                                                                                                                   \
  struct __attribute__((trivial_abi, aligned(align2))) name##2 {                                                       \
    scalar x, y;                                                                                                       \
    WARPSCHOOL_COPIED(name##2, scalar, 2)                                                                              \
    WARPSCHOOL_METHOD constexpr name##2(scalar x, scalar y = 0) : x(x), y(y) {}                                        \
  };                                                                                                                   \
  struct name##3 {                                                                                                     \
    scalar x, y, z;                                                                                                    \
  };                                                                                                                   \
  struct __attribute__((trivial_abi, aligned(align4))) name##4 {                                                       \
    scalar x, y, z, w;                                                                                                 \
    WARPSCHOOL_COPIED(name##4, scalar, 4)                                                                              \
    WARPSCHOOL_METHOD constexpr name##4(scalar x, scalar y, scalar z = 0, scalar w = 0) : x(x), y(y), z(z), w(w) {}    \
  };                                                                                                                   \
  WARPSCHOOL_BOTH constexpr name##1 make_##name##1(scalar x) { return {x}; }                                           \
  WARPSCHOOL_BOTH constexpr name##2 make_##name##2(scalar x, scalar y) { return {x, y}; }                              \
  WARPSCHOOL_BOTH constexpr name##3 make_##name##3(scalar x, scalar y, scalar z) { return {x, y, z}; }                 \
  WARPSCHOOL_BOTH constexpr name##4 make_##name##4(scalar x, scalar y, scalar z, scalar w) { return {x, y, z, w}; }
WARPSCHOOL_VECTOR(signed char, char, 2, 4)
WARPSCHOOL_VECTOR(unsigned char, uchar, 2, 4)
WARPSCHOOL_VECTOR(short, short, 4, 8)
WARPSCHOOL_VECTOR(unsigned short, ushort, 4, 8)
WARPSCHOOL_VECTOR(int, int, 8, 16)
WARPSCHOOL_VECTOR(unsigned int, uint, 8, 16)
WARPSCHOOL_VECTOR(long, long, 16, 16)
WARPSCHOOL_VECTOR(unsigned long, ulong, 16, 16)
WARPSCHOOL_VECTOR(long long, longlong, 16, 16)
WARPSCHOOL_VECTOR(unsigned long long, ulonglong, 16, 16)
WARPSCHOOL_VECTOR(float, float, 8, 16)
WARPSCHOOL_VECTOR(double, double, 16, 16)
#undef WARPSCHOOL_VECTOR
#undef WARPSCHOOL_COPIED

struct dim3 {
  unsigned int x, y, z;
  WARPSCHOOL_METHOD constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
  WARPSCHOOL_METHOD constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  WARPSCHOOL_METHOD constexpr operator uint3() const { return {x, y, z}; }
};

// ---------------------------------------------------------------- built-in variables

#define WARPSCHOOL_COMPONENT(axis, reg)                                                                                \
  __declspec(property(get = get_##axis)) unsigned int axis;                                                            \
  WARPSCHOOL_DEVICE unsigned int get_##axis() { return __nvvm_read_ptx_sreg_##reg##_##axis(); }
#define WARPSCHOOL_BUILTIN(name, reg, whole)                                                                           \
  struct warpschool_##name {                                                                                           \
    WARPSCHOOL_COMPONENT(x, reg)                                                                                       \
    WARPSCHOOL_COMPONENT(y, reg)                                                                                       \
    WARPSCHOOL_COMPONENT(z, reg)                                                                                       \
    __inline__ __attribute__((always_inline, device, nodebug)) operator whole() const { return {x, y, z}; }            \
  };                                                                                                                   \
  extern const __device__ __attribute__((weak)) warpschool_##name name;
WARPSCHOOL_BUILTIN(threadIdx, tid, uint3)
WARPSCHOOL_BUILTIN(blockIdx, ctaid, uint3)
WARPSCHOOL_BUILTIN(blockDim, ntid, dim3)
WARPSCHOOL_BUILTIN(gridDim, nctaid, dim3)
#undef WARPSCHOOL_BUILTIN
#undef WARPSCHOOL_COMPONENT
static constexpr int warpSize = 32;

// ---------------------------------------------------------------- what a kernel may call of C

extern "C" __device__ int vprintf(const char *, const char *);
extern "C" __device__ int printf(const char *, ...);
extern "C" __device__ void *malloc(size_t);
extern "C" __device__ void free(void *);
extern "C" __device__ __attribute__((noreturn)) void __assertfail(
    const char *, const char *, unsigned int, const char *, size_t);
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition)                                                                                              \
  ((condition) ? (void)0 : __assertfail(#condition, __FILE__, __LINE__, __PRETTY_FUNCTION__, sizeof(char)))
#endif
WARPSCHOOL_DEVICE void *memcpy(void *to, const void *from, size_t bytes) { return __builtin_memcpy(to, from, bytes); }
WARPSCHOOL_DEVICE void *memset(void *to, int value, size_t bytes) { return __builtin_memset(to, value, bytes); }
WARPSCHOOL_DEVICE void __trap() { asm volatile("trap;"); }
WARPSCHOOL_DEVICE void __brkpt() { asm volatile("brkpt;"); }
WARPSCHOOL_DEVICE void __nanosleep(unsigned int ns) { asm volatile("nanosleep.u32 %0;" ::"r"(ns)); }
WARPSCHOOL_DEVICE long long clock64() { return (long long)__nvvm_read_ptx_sreg_clock64(); }
WARPSCHOOL_DEVICE int clock() { return (int)__nvvm_read_ptx_sreg_clock(); }
WARPSCHOOL_DEVICE unsigned long long __globaltimer() {
  unsigned long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

namespace std {
template <class T> class initializer_list { // what a braced list in `for (int s : {1, 2})` becomes
  const T *first;
  size_t count;

public:
  constexpr initializer_list() : first(nullptr), count(0) {}
  constexpr size_t size() const { return count; }
  constexpr const T *begin() const { return first; }
  constexpr const T *end() const { return first + count; }
};
} // namespace std
