// multiplied_by_lanes.cu: lanes multiply, as in lab 01; the tensor cores rest.
// Entry:   gemm(const half A[M,K] in, const half B[K,N] in, const float C[M,N] in, float D[M,N] out,
//               int M, int N, int K, float alpha, float beta)
// Needs:   M % 16 == 0, N % 16 == 0, K % 16 == 0
// Launch:  gemm block=(16, 16) grid=(cdiv(N, 16), cdiv(M, 16))
//
// expect: PERF

#include <cuda_fp16.h>

extern "C" __global__ void gemm(const half* __restrict__ A, const half* __restrict__ B, const float* __restrict__ C,
                                float* __restrict__ D, int M, int N, int K, float alpha, float beta)
{
    const int row = blockIdx.y * 16 + threadIdx.y;
    const int col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
        sum += __half2float(A[row * K + k]) * __half2float(B[k * N + col]);
    }
    D[row * N + col] = alpha * sum + (beta != 0.0f ? beta * C[row * N + col] : 0.0f);
}
