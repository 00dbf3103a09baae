// blas.cpp: calls of cuBLAS. Each is one request: a routine's name, then numbers; NumPy does the work.
#include <cublas_v2.h>
#include <string.h>

#include <type_traits>

#include "channel.h"

using namespace warp;

namespace {

struct Handle {
    cudaStream_t stream = nullptr;
    cublasPointerMode_t mode = CUBLAS_POINTER_MODE_HOST;
};
Handle* of(cublasHandle_t handle) { return reinterpret_cast<Handle*>(handle); }

template <typename T>
constexpr uint64_t kBytes = sizeof(T);

/// A scalar, wherever it lies: behind all earlier work if that is the device.
template <typename T>
uint64_t scalar(cublasHandle_t handle, const T* at) {
    if (of(handle)->mode == CUBLAS_POINTER_MODE_DEVICE) synchronize(1, stream_number(of(handle)->stream));
    double value = *reinterpret_cast<const T*>(arena.reach(at));
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
}

uint64_t step(long long n) { return static_cast<uint64_t>(n); }

/// Sends a request of which the answer is a status, and a result where one is wanted.
template <typename... Fields>
cublasStatus_t run(cublasHandle_t handle, const char* name, double* result, Fields... fields) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (fatal() != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
    uint64_t values[] = {static_cast<uint64_t>(fields)...};
    Message message(LIBRARY);
    message.text(name).u64(stream_number(of(handle)->stream)).bytes(values, sizeof values).callers();
    Answer answer = message.ask();
    if (answer.error != cudaSuccess) return answer.error == cudaErrorInvalidValue ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_EXECUTION_FAILED;
    uint64_t bits = answer.u64();
    if (result) memcpy(result, &bits, 8);
    return CUBLAS_STATUS_SUCCESS;
}

template <typename T, typename... Fields>
cublasStatus_t reduce(cublasHandle_t handle, const char* name, T* result, Fields... fields) {
    double value = 0;
    cublasStatus_t status = run(handle, name, &value, fields...);
    if (status == CUBLAS_STATUS_SUCCESS) *reinterpret_cast<T*>(arena.reach(result)) = static_cast<T>(value);
    return status;
}

uint64_t at(const void* p) { return reinterpret_cast<uint64_t>(p); }

/// Number k of a list of matrices, which lies on the device.
template <typename T>
uint64_t matrix(const T* const* list, int k) { return at(reinterpret_cast<const T* const*>(arena.reach(list))[k]); }

/// Does something with each matrix of a batch, behind all earlier work.
template <typename Each>
cublasStatus_t batch(cublasHandle_t handle, int count, Each each) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    synchronize(1, stream_number(of(handle)->stream));
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    for (int k = 0; k < count && status == CUBLAS_STATUS_SUCCESS; k++) status = each(k);
    return status;
}

/// The integers of matrix k, of which each has n: pivots, or whether it is singular; 0 where nobody wants them.
uint64_t integers(const int* all, int n, int k) { return all ? at(all + size_t(n) * k) : 0; }

}  // namespace

API cublasStatus_t cublasCreate(cublasHandle_t* handle) {
    connect();
    if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
    *handle = reinterpret_cast<cublasHandle_t>(new Handle);
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasDestroy(cublasHandle_t handle) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    delete of(handle);
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    of(handle)->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    *stream = of(handle)->stream;
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    of(handle)->mode = mode;
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasGetPointerMode(cublasHandle_t handle, cublasPointerMode_t* mode) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    *mode = of(handle)->mode;
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
API cublasStatus_t cublasGetVersion(cublasHandle_t, int* version) {
    *version = CUDART_VERSION * 10;
    return CUBLAS_STATUS_SUCCESS;
}

#define STATUSES(status) \
    status(CUBLAS_STATUS_SUCCESS, "success") status(CUBLAS_STATUS_NOT_INITIALIZED, "the library was not initialized") \
    status(CUBLAS_STATUS_ALLOC_FAILED, "the resource allocation failed") \
    status(CUBLAS_STATUS_INVALID_VALUE, "an unsupported value or parameter was passed to the function") \
    status(CUBLAS_STATUS_EXECUTION_FAILED, "the function failed to launch on the GPU") \
    status(CUBLAS_STATUS_NOT_SUPPORTED, "the functionality is not supported")
API const char* cublasGetStatusString(cublasStatus_t status) {
    switch (status) {
#define TEXT(code, text) \
    case code: return text;
        STATUSES(TEXT)
        default: return "unknown status";
    }
}
API const char* cublasGetStatusName(cublasStatus_t status) {
    switch (status) {
#define NAME(code, text) \
    case code: return #code;
        STATUSES(NAME)
        default: return "unknown status";
    }
}

namespace {
cublasStatus_t as_status(cudaError_t error) { return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_MAPPING_ERROR; }
cublasStatus_t move(const void* from, size_t from_row, void* to, size_t to_row, size_t width, size_t height, cudaMemcpyKind kind) {
    return as_status(cudaMemcpy2D(to, to_row, from, from_row, width, height, kind));
}
}  // namespace

API cublasStatus_t cublasSetVector(int n, int element, const void* from, int from_step, void* to, int to_step) {
    return move(from, size_t(from_step) * element, to, size_t(to_step) * element, element, n, cudaMemcpyHostToDevice);
}
API cublasStatus_t cublasGetVector(int n, int element, const void* from, int from_step, void* to, int to_step) {
    return move(from, size_t(from_step) * element, to, size_t(to_step) * element, element, n, cudaMemcpyDeviceToHost);
}
API cublasStatus_t cublasSetMatrix(int rows, int columns, int element, const void* from, int from_rows, void* to, int to_rows) {
    return move(from, size_t(from_rows) * element, to, size_t(to_rows) * element, size_t(rows) * element, columns, cudaMemcpyHostToDevice);
}
API cublasStatus_t cublasGetMatrix(int rows, int columns, int element, const void* from, int from_rows, void* to, int to_rows) {
    return move(from, size_t(from_rows) * element, to, size_t(to_rows) * element, size_t(rows) * element, columns, cudaMemcpyDeviceToHost);
}

#define BLAS(T, t, I)                                                                                                                        \
    API cublasStatus_t cublas##t##gemmStridedBatched(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,      \
                                                     const T* alpha, const T* a, int lda, long long a_step, const T* b, int ldb,             \
                                                     long long b_step, const T* beta, T* c, int ldc, long long c_step, int count) {          \
        return run(h, "gemm", nullptr, kBytes<T>, ta, tb, m, n, k, scalar(h, alpha), at(a), lda, step(a_step), at(b), ldb, step(b_step),     \
                   scalar(h, beta), at(c), ldc, step(c_step), count);                                                                        \
    }                                                                                                                                        \
    API cublasStatus_t cublas##t##gemm(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const T* alpha,    \
                                       const T* a, int lda, const T* b, int ldb, const T* beta, T* c, int ldc) {                             \
        return cublas##t##gemmStridedBatched(h, ta, tb, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1);                           \
    }                                                                                                                                        \
    API cublasStatus_t cublas##t##gemmBatched(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,             \
                                              const T* alpha, const T* const a[], int lda, const T* const b[], int ldb, const T* beta,       \
                                              T* const c[], int ldc, int count) {                                                            \
        synchronize(1, stream_number(of(h)->stream));                                                                                        \
        auto list = [](const auto* p, int k) { return reinterpret_cast<T* const*>(arena.reach(p))[k]; };                                     \
        for (int k0 = 0; k0 < count; k0++) {                                                                                                 \
            cublasStatus_t status = cublas##t##gemm(h, ta, tb, m, n, k, alpha, list(a, k0), lda, list(b, k0), ldb, beta, list(c, k0), ldc);  \
            if (status != CUBLAS_STATUS_SUCCESS) return status;                                                                              \
        }                                                                                                                                    \
        return CUBLAS_STATUS_SUCCESS;                                                                                                        \
    }                                                                                                                                        \
    API cublasStatus_t cublas##t##geam(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, const T* alpha,           \
                                       const T* a, int lda, const T* beta, const T* b, int ldb, T* c, int ldc) {                             \
        return run(h, "geam", nullptr, kBytes<T>, ta, tb, m, n, scalar(h, alpha), at(a), lda, scalar(h, beta), at(b), ldb, at(c), ldc);      \
    }                                                                                                                                        \
    API cublasStatus_t cublas##t##getrfBatched(cublasHandle_t h, int n, T* const a[], int lda, int* p, int* info, int count) {               \
        return batch(h, count, [=](int k) {                                                                                                  \
            return run(h, "getrf", nullptr, kBytes<T>, n, matrix(a, k), lda, integers(p, n, k), integers(info, 1, k));                       \
        });                                                                                                                                  \
    }                                                                                                                                        \
    API cublasStatus_t cublas##t##getriBatched(cublasHandle_t h, int n, const T* const a[], int lda, const int* p, T* const c[], int ldc,    \
                                               int* info, int count) {                                                                       \
        return batch(h, count, [=](int k) {                                                                                                  \
            return run(h, "getri", nullptr, kBytes<T>, n, matrix(a, k), lda, integers(p, n, k), matrix(c, k), ldc, integers(info, 1, k));    \
        });                                                                                                                                  \
    }                                                                                                                                        \
    API cublasStatus_t cublas##t##getrsBatched(cublasHandle_t h, cublasOperation_t ta, int n, int columns, const T* const a[], int lda,      \
                                               const int* p, T* const b[], int ldb, int* info, int count) {                                  \
        if (info) *info = 0; /* on the host: a wrong argument, which the status tells */                                                     \
        return batch(h, count, [=](int k) {                                                                                                  \
            return run(h, "getrs", nullptr, kBytes<T>, ta, n, columns, matrix(a, k), lda, integers(p, n, k), matrix(b, k), ldb);             \
        });                                                                                                                                  \
    }                                                                                                                                        \
    API cublasStatus_t cublas##t##gemv(cublasHandle_t h, cublasOperation_t ta, int m, int n, const T* alpha, const T* a, int lda,            \
                                       const T* x, int x_step, const T* beta, T* y, int y_step) {                                            \
        return run(h, "gemv", nullptr, kBytes<T>, ta, m, n, scalar(h, alpha), at(a), lda, at(x), step(x_step), scalar(h, beta), at(y),       \
                   step(y_step));                                                                                                            \
    }                                                                                                                                        \
    API cublasStatus_t cublas##t##ger(cublasHandle_t h, int m, int n, const T* alpha, const T* x, int x_step, const T* y, int y_step,        \
                                      T* a, int lda) {                                                                                       \
        return run(h, "ger", nullptr, kBytes<T>, m, n, scalar(h, alpha), at(x), step(x_step), at(y), step(y_step), at(a), lda);              \
    }                                                                                                                                        \
    API cublasStatus_t cublas##t##axpy(cublasHandle_t h, int n, const T* alpha, const T* x, int x_step, T* y, int y_step) {                  \
        return run(h, "axpy", nullptr, kBytes<T>, n, scalar(h, alpha), at(x), step(x_step), at(y), step(y_step));                            \
    }                                                                                                                                        \
    API cublasStatus_t cublas##t##scal(cublasHandle_t h, int n, const T* alpha, T* x, int x_step) {                                          \
        return run(h, "scal", nullptr, kBytes<T>, n, scalar(h, alpha), at(x), step(x_step));                                                 \
    }                                                                                                                                        \
    API cublasStatus_t cublas##t##copy(cublasHandle_t h, int n, const T* x, int x_step, T* y, int y_step) {                                  \
        return run(h, "copy", nullptr, kBytes<T>, n, at(x), step(x_step), at(y), step(y_step));                                              \
    }                                                                                                                                        \
    API cublasStatus_t cublas##t##swap(cublasHandle_t h, int n, T* x, int x_step, T* y, int y_step) {                                        \
        return run(h, "swap", nullptr, kBytes<T>, n, at(x), step(x_step), at(y), step(y_step));                                              \
    }                                                                                                                                        \
    API cublasStatus_t cublas##t##dot(cublasHandle_t h, int n, const T* x, int x_step, const T* y, int y_step, T* result) {                  \
        return reduce(h, "dot", result, kBytes<T>, n, at(x), step(x_step), at(y), step(y_step));                                             \
    }                                                                                                                                        \
    API cublasStatus_t cublas##t##nrm2(cublasHandle_t h, int n, const T* x, int x_step, T* result) {                                         \
        return reduce(h, "nrm2", result, kBytes<T>, n, at(x), step(x_step));                                                                 \
    }                                                                                                                                        \
    API cublasStatus_t cublas##t##asum(cublasHandle_t h, int n, const T* x, int x_step, T* result) {                                         \
        return reduce(h, "asum", result, kBytes<T>, n, at(x), step(x_step));                                                                 \
    }                                                                                                                                        \
    API cublasStatus_t cublasI##I##amax(cublasHandle_t h, int n, const T* x, int x_step, int* result) {                                      \
        return reduce(h, "amax", result, kBytes<T>, n, at(x), step(x_step));                                                                 \
    }                                                                                                                                        \
    API cublasStatus_t cublasI##I##amin(cublasHandle_t h, int n, const T* x, int x_step, int* result) {                                      \
        return reduce(h, "amin", result, kBytes<T>, n, at(x), step(x_step));                                                                 \
    }
BLAS(float, S, s)
BLAS(double, D, d)
