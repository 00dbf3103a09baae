// right_one_warp.cu: a block is one warp.
// Entry:   gemm(const half A[M,K] in, const half B[K,N] in, const float C[M,N] in, float D[M,N] out,
//               int M, int N, int K, float alpha, float beta)
// Needs:   M % 16 == 0, N % 16 == 0, K % 16 == 0
// Launch:  gemm block=(32, WARPS) grid=(cdiv(N, 16), cdiv(M, 16 * WARPS))
//
// expect: AC

#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

constexpr int WARPS = 1;

extern "C" __global__ void gemm(const half* __restrict__ A, const half* __restrict__ B, const float* __restrict__ C,
                                float* __restrict__ D, int M, int N, int K, float alpha, float beta)
{
    const int row = (blockIdx.y * WARPS + threadIdx.y) * 16;
    const int col = blockIdx.x * 16;
    if (row >= M) {
        return;
    }
    fragment<accumulator, 16, 16, 16, float> sum;
    fill_fragment(sum, 0.0f);
    for (int k = 0; k < K; k += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> a;
        fragment<matrix_b, 16, 16, 16, half, row_major> b;
        load_matrix_sync(a, A + row * K + k, K);
        load_matrix_sync(b, B + k * N + col, N);
        mma_sync(sum, a, b, sum);
    }
    fragment<accumulator, 16, 16, 16, float> result;
    fill_fragment(result, 0.0f);
    if (beta != 0.0f) {
        load_matrix_sync(result, C + row * N + col, N, mem_row_major);
    }
    for (int i = 0; i < result.num_elements; ++i) {
        result.x[i] = alpha * sum.x[i] + beta * result.x[i];
    }
    store_matrix_sync(D + row * N + col, result, N, mem_row_major);
}
