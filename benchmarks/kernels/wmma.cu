// wmma.cu: C = A * B in half with float sums on tensor cores; a block of four warps makes 128 x 128, each warp 64 x 64.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

constexpr int BLOCK_M = 128, BLOCK_N = 128, BLOCK_K = 32, PAD = 8;

extern "C" __global__ void __launch_bounds__(128)
matmul(const half *A, const half *B, float *C, int M, int N, int K)
{
    __shared__ __align__(32) half tileA[BLOCK_M][BLOCK_K + PAD];
    __shared__ __align__(32) half tileB[BLOCK_K][BLOCK_N + PAD];
    int row0 = blockIdx.y * BLOCK_M, col0 = blockIdx.x * BLOCK_N;
    int warp = threadIdx.x / 32, warpRow = warp / 2 * 64, warpCol = warp % 2 * 64;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[4][4];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            wmma::fill_fragment(sum[i][j], 0.0f);
    for (int k0 = 0; k0 < K; k0 += BLOCK_K) {
#pragma unroll
        for (int step = 0; step < BLOCK_M * BLOCK_K / 8 / 128; step++) {
            int n = threadIdx.x + step * 128, row = n / (BLOCK_K / 8), col = n % (BLOCK_K / 8) * 8;
            *(float4 *)&tileA[row][col] = *(const float4 *)&A[(row0 + row) * K + k0 + col];
        }
#pragma unroll
        for (int step = 0; step < BLOCK_K * BLOCK_N / 8 / 128; step++) {
            int n = threadIdx.x + step * 128, row = n / (BLOCK_N / 8), col = n % (BLOCK_N / 8) * 8;
            *(float4 *)&tileB[row][col] = *(const float4 *)&B[(k0 + row) * N + col0 + col];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BLOCK_K; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[4];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b[4];
            for (int i = 0; i < 4; i++)
                wmma::load_matrix_sync(a[i], &tileA[warpRow + 16 * i][k], BLOCK_K + PAD);
            for (int j = 0; j < 4; j++)
                wmma::load_matrix_sync(b[j], &tileB[k][warpCol + 16 * j], BLOCK_N + PAD);
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    wmma::mma_sync(sum[i][j], a[i], b[j], sum[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            wmma::store_matrix_sync(&C[(row0 + warpRow + 16 * i) * N + col0 + warpCol + 16 * j], sum[i][j], N,
                                    wmma::mem_row_major);
}
