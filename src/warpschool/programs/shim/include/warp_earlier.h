// warp_earlier.h: what CUDA 13 took out of its interface and programs of CUDA 8 to 12 still use. Included before every .cu file,
// with a copy of driver_types.h in which cudaDeviceProp has its earlier fields in the place of reserved ones. Calls of the host's
// are in warp_earlier_calls.h, which files of other languages find as well.
#pragma once
#define CCCL_DISABLE_NVTX  // CUB's and Thrust's own marks want more of NVTX than include/nvtx3 has
#if defined(__cplusplus) && defined(__CUDACC__) && CUDART_VERSION >= 13000
#include <cuda_runtime.h>

// Warp functions until CUDA 8, of the lanes that are there: NVIDIA's headers have them for GPUs before Volta alone.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
#define WARP_SHUFFLE(name, by)                                                      \
    template <typename T>                                                           \
    static __device__ __forceinline__ T name(T value, by lanes, int width = 32)     \
    {                                                                               \
        return name##_sync(__activemask(), value, lanes, width);                    \
    }
WARP_SHUFFLE(__shfl, int)
WARP_SHUFFLE(__shfl_up, unsigned)
WARP_SHUFFLE(__shfl_down, unsigned)
WARP_SHUFFLE(__shfl_xor, int)
#undef WARP_SHUFFLE
static __device__ __forceinline__ int __any(int predicate) { return __any_sync(__activemask(), predicate); }
static __device__ __forceinline__ int __all(int predicate) { return __all_sync(__activemask(), predicate); }
static __device__ __forceinline__ unsigned __ballot(int predicate) { return __ballot_sync(__activemask(), predicate); }
#endif

// Function objects that CCCL 3 dropped.
#define WARP_OBJECT(name, expression)                                                                     \
    struct name {                                                                                         \
        template <typename T, typename U>                                                                 \
        __host__ __device__ __forceinline__ constexpr auto operator()(const T& a, const U& b) const       \
        {                                                                                                 \
            return expression;                                                                            \
        }                                                                                                 \
    };
#if __cplusplus >= 201402L
namespace cub {
WARP_OBJECT(Sum, a + b)
WARP_OBJECT(Difference, a - b)
WARP_OBJECT(Max, a < b ? b : a)
WARP_OBJECT(Min, b < a ? b : a)
WARP_OBJECT(Equality, a == b)
WARP_OBJECT(Inequality, a != b)
}  // namespace cub
#endif
#undef WARP_OBJECT
// Macros that CUB had until CCCL 2.
#define CUB_MAX(a, b) (((b) > (a)) ? (b) : (a))
#define CUB_MIN(a, b) (((b) < (a)) ? (b) : (a))
#define CUB_QUOTIENT_FLOOR(x, y) ((x) / (y))
#define CUB_QUOTIENT_CEILING(x, y) (((x) + (y) - 1) / (y))
#define CUB_ROUND_UP_NEAREST(x, y) ((((x) + (y) - 1) / (y)) * (y))
#define CUB_ROUND_DOWN_NEAREST(x, y) (((x) / (y)) * (y))
namespace thrust {
template <typename Argument, typename Result>
struct unary_function {
    typedef Argument argument_type;
    typedef Result result_type;
};
template <typename First, typename Second, typename Result>
struct binary_function {
    typedef First first_argument_type;
    typedef Second second_argument_type;
    typedef Result result_type;
};
template <typename T = void>
struct identity {
    typedef T argument_type;
    typedef T result_type;
    __host__ __device__ __forceinline__ constexpr const T& operator()(const T& value) const { return value; }
};
template <>
struct identity<void> {
    template <typename T>
    __host__ __device__ __forceinline__ constexpr T&& operator()(T&& value) const
    {
        return static_cast<T&&>(value);
    }
};
template <typename Predicate>
struct unary_negate {
    Predicate predicate;
    template <typename T>
    __host__ __device__ __forceinline__ bool operator()(const T& value) const
    {
        return !predicate(value);
    }
};
template <typename Predicate>
struct binary_negate {
    Predicate predicate;
    template <typename T, typename U>
    __host__ __device__ __forceinline__ bool operator()(const T& a, const U& b) const
    {
        return !predicate(a, b);
    }
};
template <typename Predicate>
__host__ __device__ unary_negate<Predicate> not1(const Predicate& predicate)
{
    return {predicate};
}
template <typename Predicate>
__host__ __device__ binary_negate<Predicate> not2(const Predicate& predicate)
{
    return {predicate};
}
}  // namespace thrust
#endif
