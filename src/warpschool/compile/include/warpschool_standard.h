// warpschool_standard.h: names of the C++ standard headers that NVRTC, which has no such headers, leaves undefined.
// A source that uses one without declaring it gets it, by WARPSCHOOL_<name>; the headers beside this file define all.
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_int8_t)) && !defined(WARPSCHOOL_HAS_int8_t)
#define WARPSCHOOL_HAS_int8_t
using int8_t = signed char;
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_uint8_t)) && !defined(WARPSCHOOL_HAS_uint8_t)
#define WARPSCHOOL_HAS_uint8_t
using uint8_t = unsigned char;
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_int16_t)) && !defined(WARPSCHOOL_HAS_int16_t)
#define WARPSCHOOL_HAS_int16_t
using int16_t = short;
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_uint16_t)) && !defined(WARPSCHOOL_HAS_uint16_t)
#define WARPSCHOOL_HAS_uint16_t
using uint16_t = unsigned short;
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_int32_t)) && !defined(WARPSCHOOL_HAS_int32_t)
#define WARPSCHOOL_HAS_int32_t
using int32_t = int;
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_uint32_t)) && !defined(WARPSCHOOL_HAS_uint32_t)
#define WARPSCHOOL_HAS_uint32_t
using uint32_t = unsigned int;
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_int64_t)) && !defined(WARPSCHOOL_HAS_int64_t)
#define WARPSCHOOL_HAS_int64_t
using int64_t = long long;
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_uint64_t)) && !defined(WARPSCHOOL_HAS_uint64_t)
#define WARPSCHOOL_HAS_uint64_t
using uint64_t = unsigned long long;
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_intptr_t)) && !defined(WARPSCHOOL_HAS_intptr_t)
#define WARPSCHOOL_HAS_intptr_t
using intptr_t = long long;
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_uintptr_t)) && !defined(WARPSCHOOL_HAS_uintptr_t)
#define WARPSCHOOL_HAS_uintptr_t
using uintptr_t = unsigned long long;
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_uchar)) && !defined(WARPSCHOOL_HAS_uchar)
#define WARPSCHOOL_HAS_uchar
using uchar = unsigned char;
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_ushort)) && !defined(WARPSCHOOL_HAS_ushort)
#define WARPSCHOOL_HAS_ushort
using ushort = unsigned short;
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_uint)) && !defined(WARPSCHOOL_HAS_uint)
#define WARPSCHOOL_HAS_uint
using uint = unsigned int;
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_ulong)) && !defined(WARPSCHOOL_HAS_ulong)
#define WARPSCHOOL_HAS_ulong
using ulong = unsigned long;
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_INFINITY)) && !defined(INFINITY)
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_NAN)) && !defined(NAN)
#define NAN __builtin_bit_cast(float, 0x7fffffff)
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_HUGE_VALF)) && !defined(HUGE_VALF)
#define HUGE_VALF __builtin_bit_cast(float, 0x7f800000)
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_HUGE_VAL)) && !defined(HUGE_VAL)
#define HUGE_VAL __builtin_bit_cast(double, 0x7ff0000000000000LL)
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_FLT_MAX)) && !defined(FLT_MAX)
#define FLT_MAX 3.40282346638528859811704183484516925e+38f
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_FLT_MIN)) && !defined(FLT_MIN)
#define FLT_MIN 1.17549435082228750796873653722224568e-38f
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_FLT_EPSILON)) && !defined(FLT_EPSILON)
#define FLT_EPSILON 1.19209289550781250000000000000000000e-7f
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_DBL_MAX)) && !defined(DBL_MAX)
#define DBL_MAX 1.79769313486231570814527423731704357e+308
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_DBL_MIN)) && !defined(DBL_MIN)
#define DBL_MIN 2.22507385850720138309023271733240406e-308
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_DBL_EPSILON)) && !defined(DBL_EPSILON)
#define DBL_EPSILON 2.22044604925031308084726333618164062e-16
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_CHAR_BIT)) && !defined(CHAR_BIT)
#define CHAR_BIT 8
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_SCHAR_MIN)) && !defined(SCHAR_MIN)
#define SCHAR_MIN (-128)
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_SCHAR_MAX)) && !defined(SCHAR_MAX)
#define SCHAR_MAX 127
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_UCHAR_MAX)) && !defined(UCHAR_MAX)
#define UCHAR_MAX 255
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_SHRT_MAX) || defined(WARPSCHOOL_SHRT_MIN)) && !defined(SHRT_MAX)
#define SHRT_MAX 0x7fff
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_SHRT_MIN)) && !defined(SHRT_MIN)
#define SHRT_MIN (-SHRT_MAX - 1)
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_USHRT_MAX)) && !defined(USHRT_MAX)
#define USHRT_MAX 0xffff
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_INT_MAX) || defined(WARPSCHOOL_INT_MIN)) && !defined(INT_MAX)
#define INT_MAX 0x7fffffff
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_INT_MIN)) && !defined(INT_MIN)
#define INT_MIN (-INT_MAX - 1)
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_UINT_MAX)) && !defined(UINT_MAX)
#define UINT_MAX 0xffffffff
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_LLONG_MAX) || defined(WARPSCHOOL_LLONG_MIN)) && !defined(LLONG_MAX)
#define LLONG_MAX 0x7fffffffffffffffLL
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_LLONG_MIN)) && !defined(LLONG_MIN)
#define LLONG_MIN (-LLONG_MAX - 1)
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_ULLONG_MAX)) && !defined(ULLONG_MAX)
#define ULLONG_MAX 0xffffffffffffffffUL
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_INT8_MAX)) && !defined(INT8_MAX)
#define INT8_MAX 127
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_INT16_MAX)) && !defined(INT16_MAX)
#define INT16_MAX 32767
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_INT32_MAX)) && !defined(INT32_MAX)
#define INT32_MAX 0x7fffffff
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_INT64_MAX)) && !defined(INT64_MAX)
#define INT64_MAX 0x7fffffffffffffffLL
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_INT8_MIN)) && !defined(INT8_MIN)
#define INT8_MIN (-128)
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_INT16_MIN)) && !defined(INT16_MIN)
#define INT16_MIN (-32768)
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_INT32_MIN)) && !defined(INT32_MIN)
#define INT32_MIN (-0x7fffffff - 1)
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_INT64_MIN)) && !defined(INT64_MIN)
#define INT64_MIN (-0x7fffffffffffffffLL - 1)
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_UINT8_MAX)) && !defined(UINT8_MAX)
#define UINT8_MAX 255
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_UINT16_MAX)) && !defined(UINT16_MAX)
#define UINT16_MAX 65535
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_UINT32_MAX)) && !defined(UINT32_MAX)
#define UINT32_MAX 0xffffffffU
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_UINT64_MAX)) && !defined(UINT64_MAX)
#define UINT64_MAX 0xffffffffffffffffULL
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_SIZE_MAX)) && !defined(SIZE_MAX)
#define SIZE_MAX 0xffffffffffffffffULL
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_M_PI)) && !defined(M_PI)
#define M_PI 3.14159265358979323846
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_M_PI_2)) && !defined(M_PI_2)
#define M_PI_2 1.57079632679489661923
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_M_E)) && !defined(M_E)
#define M_E 2.71828182845904523536
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_M_LN2)) && !defined(M_LN2)
#define M_LN2 0.69314718055994530942
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_M_SQRT2)) && !defined(M_SQRT2)
#define M_SQRT2 1.41421356237309504880
#endif
#if (defined(WARPSCHOOL_ALL) || defined(WARPSCHOOL_M_SQRT1_2)) && !defined(M_SQRT1_2)
#define M_SQRT1_2 0.70710678118654752440
#endif
