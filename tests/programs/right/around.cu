// What programs have around their kernels: marks for profilers, error checks by overloads, OpenMP, default streams of threads.
// options: -Xcompiler -fopenmp --default-stream per-thread
#include <cstdio>
#include <cublas_v2.h>
#include <cuda_profiler_api.h>
#include <curand.h>
#include <nvtx3/nvToolsExt.h>
#include <omp.h>

#ifndef CUBLAS_API_H_
#error "other headers ask for this"
#endif

const char* name_of(cudaError_t error) { return cudaGetErrorName(error); }
const char* name_of(cublasStatus_t status) { return cublasGetStatusName(status); }
const char* name_of(curandStatus_t status) { return status == CURAND_STATUS_SUCCESS ? "CURAND_STATUS_SUCCESS" : "another"; }
template <typename T>
void check(T result, const char* what)
{
    if (result) printf("%s: %s\n", what, name_of(result));
}
#define CHECK(call) check((call), #call)

__global__ void twice(int* x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}

int main()
{
    CHECK(cudaProfilerStart());
    nvtxRangePushA("all");
    cublasHandle_t blas;
    CHECK(cublasCreate(&blas));
    CHECK(cublasDestroy(blas));
    CHECK(cudaMemcpy(nullptr, nullptr, 4, cudaMemcpyHostToDevice));
    int sums[4] = {};
#pragma omp parallel num_threads(4)
    {
        int me = omp_get_thread_num(), host[64], *x;
        for (int i = 0; i < 64; i++) host[i] = me;
        cudaMalloc(&x, sizeof host);
        cudaMemcpyAsync(x, host, sizeof host, cudaMemcpyHostToDevice, cudaStreamPerThread);
        twice<<<2, 32>>>(x, 64);
        cudaMemcpyAsync(host, x, sizeof host, cudaMemcpyDeviceToHost, 0);
        cudaStreamSynchronize(0);
        for (int i = 0; i < 64; i++) sums[me] += host[i];
        cudaFree(x);
    }
    printf("%d %d %d %d\n", sums[0], sums[1], sums[2], sums[3]);
    nvtxRangePop();
    CHECK(cudaProfilerStop());
    printf("%s %s\n", cudaGetErrorName(cudaErrorTooManyPeers), cudaGetErrorName((cudaError_t)12345));
    return 0;
}
/* prints
cudaMemcpy(nullptr, nullptr, 4, cudaMemcpyHostToDevice): cudaErrorInvalidValue
0 128 256 384
cudaErrorTooManyPeers unrecognized error code
*/
