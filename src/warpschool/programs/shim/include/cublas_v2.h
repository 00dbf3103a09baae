// cublas_v2.h: the calls of cuBLAS that teaching code makes, as warpschool's runtime library has them.
// Matrices are stored by columns. Where NVIDIA's own header is installed, that one is found first.
#pragma once
#include <cuda_runtime_api.h>
#include <cuComplex.h>  // and by it math.h, as NVIDIA's own header does
#include <library_types.h>
#define CUBLAS_API_H_  // what other headers ask whether this one is there
#define CUBLAS_V2_H_
#define CUBLAS_VER_MAJOR 13
#define CUBLAS_VER_MINOR 0
#define CUBLAS_VERSION 130000

typedef struct cublasContext* cublasHandle_t;

typedef enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_ARCH_MISMATCH = 8,
    CUBLAS_STATUS_MAPPING_ERROR = 11,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_INTERNAL_ERROR = 14,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
    CUBLAS_STATUS_LICENSE_ERROR = 16
} cublasStatus_t;
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 } cublasOperation_t;
typedef enum { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 } cublasPointerMode_t;
typedef enum { CUBLAS_DEFAULT_MATH = 0, CUBLAS_TENSOR_OP_MATH = 1, CUBLAS_PEDANTIC_MATH = 2, CUBLAS_TF32_TENSOR_OP_MATH = 3 } cublasMath_t;

#ifdef __cplusplus
extern "C" {
#endif

#define cublasCreate cublasCreate_v2
#define cublasDestroy cublasDestroy_v2
#define cublasSetStream cublasSetStream_v2
#define cublasGetStream cublasGetStream_v2
#define cublasSetPointerMode cublasSetPointerMode_v2
#define cublasGetPointerMode cublasGetPointerMode_v2
#define cublasGetVersion cublasGetVersion_v2
cublasStatus_t cublasCreate(cublasHandle_t* handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream);
cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode);
cublasStatus_t cublasGetPointerMode(cublasHandle_t handle, cublasPointerMode_t* mode);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasGetVersion(cublasHandle_t handle, int* version);
const char* cublasGetStatusString(cublasStatus_t status);
const char* cublasGetStatusName(cublasStatus_t status);
cublasStatus_t cublasSetVector(int n, int element, const void* from, int from_step, void* to, int to_step);
cublasStatus_t cublasGetVector(int n, int element, const void* from, int from_step, void* to, int to_step);
cublasStatus_t cublasSetMatrix(int rows, int columns, int element, const void* from, int from_rows, void* to, int to_rows);
cublasStatus_t cublasGetMatrix(int rows, int columns, int element, const void* from, int from_rows, void* to, int to_rows);

#define cublasSgemm cublasSgemm_v2
#define cublasSgemv cublasSgemv_v2
#define cublasSger cublasSger_v2
#define cublasSaxpy cublasSaxpy_v2
#define cublasSscal cublasSscal_v2
#define cublasScopy cublasScopy_v2
#define cublasSswap cublasSswap_v2
#define cublasSdot cublasSdot_v2
#define cublasSnrm2 cublasSnrm2_v2
#define cublasSasum cublasSasum_v2
#define cublasIsamax cublasIsamax_v2
#define cublasIsamin cublasIsamin_v2
#define cublasDgemm cublasDgemm_v2
#define cublasDgemv cublasDgemv_v2
#define cublasDger cublasDger_v2
#define cublasDaxpy cublasDaxpy_v2
#define cublasDscal cublasDscal_v2
#define cublasDcopy cublasDcopy_v2
#define cublasDswap cublasDswap_v2
#define cublasDdot cublasDdot_v2
#define cublasDnrm2 cublasDnrm2_v2
#define cublasDasum cublasDasum_v2
#define cublasIdamax cublasIdamax_v2
#define cublasIdamin cublasIdamin_v2

#define WARP_BLAS(T, t, I)                                                                                                              \
    cublasStatus_t cublas##t##gemm(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k, const T* alpha, const T* a, \
                                   int lda, const T* b, int ldb, const T* beta, T* c, int ldc);                                          \
    cublasStatus_t cublas##t##gemmStridedBatched(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,              \
                                                 const T* alpha, const T* a, int lda, long long a_step, const T* b, int ldb,             \
                                                 long long b_step, const T* beta, T* c, int ldc, long long c_step, int count);           \
    cublasStatus_t cublas##t##gemmBatched(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k, const T* alpha,     \
                                          const T* const a[], int lda, const T* const b[], int ldb, const T* beta, T* const c[],         \
                                          int ldc, int count);                                                                           \
    cublasStatus_t cublas##t##geam(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, const T* alpha, const T* a,       \
                                   int lda, const T* beta, const T* b, int ldb, T* c, int ldc);                                          \
    cublasStatus_t cublas##t##getrfBatched(cublasHandle_t, int n, T* const a[], int lda, int* p, int* info, int count);                  \
    cublasStatus_t cublas##t##getriBatched(cublasHandle_t, int n, const T* const a[], int lda, const int* p, T* const c[], int ldc,      \
                                           int* info, int count);                                                                        \
    cublasStatus_t cublas##t##getrsBatched(cublasHandle_t, cublasOperation_t, int n, int columns, const T* const a[], int lda,           \
                                           const int* p, T* const b[], int ldb, int* info, int count);                                   \
    cublasStatus_t cublas##t##gemv(cublasHandle_t, cublasOperation_t, int m, int n, const T* alpha, const T* a, int lda, const T* x,     \
                                   int x_step, const T* beta, T* y, int y_step);                                                         \
    cublasStatus_t cublas##t##ger(cublasHandle_t, int m, int n, const T* alpha, const T* x, int x_step, const T* y, int y_step, T* a,    \
                                  int lda);                                                                                              \
    cublasStatus_t cublas##t##axpy(cublasHandle_t, int n, const T* alpha, const T* x, int x_step, T* y, int y_step);                     \
    cublasStatus_t cublas##t##scal(cublasHandle_t, int n, const T* alpha, T* x, int x_step);                                             \
    cublasStatus_t cublas##t##copy(cublasHandle_t, int n, const T* x, int x_step, T* y, int y_step);                                     \
    cublasStatus_t cublas##t##swap(cublasHandle_t, int n, T* x, int x_step, T* y, int y_step);                                           \
    cublasStatus_t cublas##t##dot(cublasHandle_t, int n, const T* x, int x_step, const T* y, int y_step, T* result);                     \
    cublasStatus_t cublas##t##nrm2(cublasHandle_t, int n, const T* x, int x_step, T* result);                                            \
    cublasStatus_t cublas##t##asum(cublasHandle_t, int n, const T* x, int x_step, T* result);                                            \
    cublasStatus_t cublasI##I##amax(cublasHandle_t, int n, const T* x, int x_step, int* result);                                         \
    cublasStatus_t cublasI##I##amin(cublasHandle_t, int n, const T* x, int x_step, int* result);
WARP_BLAS(float, S, s)
WARP_BLAS(double, D, d)

#ifdef __cplusplus
}
#endif
