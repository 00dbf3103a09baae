// 01_wmma_naive.cu: D = alpha * A * B + beta * C on tensor cores, a warp for each tile of 16 x 16.
// Idea:    a tensor core multiplies two matrices of 16 x 16 for one instruction of a warp: 4096 products. The warp's 32
//          lanes hold each operand together, as a fragment; which lane holds what is the hardware's affair.
// From:    lab01_naive_gemm/02_alpha_beta.cu
// Limits:  every fragment comes from global memory, anew for every product; sizes are multiples of 16.
// Entry:   gemm(const half A[M,K] in, const half B[K,N] in, const float C[M,N] in, float D[M,N] out,
//               int M, int N, int K, float alpha, float beta)
// Needs:   M % 16 == 0, N % 16 == 0, K % 16 == 0
// Launch:  gemm block=(32, WARPS) grid=(cdiv(N, 16), cdiv(M, 16 * WARPS))

#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

constexpr int WARPS = 4;  // tiles below each other in a block, one for each warp

static_assert(WARPS <= 32, "a block has at most 1024 threads");

extern "C" __global__ void gemm(const half* __restrict__ A, const half* __restrict__ B, const float* __restrict__ C,
                                float* __restrict__ D, int M, int N, int K, float alpha, float beta)
{
    const int row = (blockIdx.y * WARPS + threadIdx.y) * 16;
    const int col = blockIdx.x * 16;
    if (row >= M) {
        return;  // a whole warp: the others need all of their lanes, and have them
    }
    fragment<accumulator, 16, 16, 16, float> sum;
    fill_fragment(sum, 0.0f);
    // BEGIN SOLUTION: for every 16 steps of k, load a fragment of A and one of B, and add their product (about 7 lines)
    for (int k = 0; k < K; k += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> a;
        fragment<matrix_b, 16, 16, 16, half, row_major> b;
        load_matrix_sync(a, A + row * K + k, K);
        load_matrix_sync(b, B + k * N + col, N);
        mma_sync(sum, a, b, sum);
    }
    // END SOLUTION
    fragment<accumulator, 16, 16, 16, float> result;
    // BEGIN SOLUTION: fragments of one kind agree in who holds what: alpha * sum + beta * C by element (about 8 lines)
    fill_fragment(result, 0.0f);
    if (beta != 0.0f) {
        load_matrix_sync(result, C + row * N + col, N, mem_row_major);
    }
    for (int i = 0; i < result.num_elements; ++i) {
        result.x[i] = alpha * sum.x[i] + beta * result.x[i];
    }
    // END SOLUTION
    store_matrix_sync(D + row * N + col, result, N, mem_row_major);
}
