// wmma_registers.cu: C = A * B in half with float sums on tensor cores; each warp makes 64 x 64 straight from memory.
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void matmul(const half *A, const half *B, float *C, int M, int N, int K)
{
    int row0 = blockIdx.y * 64, col0 = blockIdx.x * 64;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[4][4];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            wmma::fill_fragment(sum[i][j], 0.0f);
#pragma unroll 1
    for (int k = 0; k < K; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[4];
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b[4];
        for (int i = 0; i < 4; i++) {
            wmma::load_matrix_sync(a[i], A + (row0 + 16 * i) * K + k, K);
            wmma::load_matrix_sync(b[i], B + k * N + col0 + 16 * i, N);
        }
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                wmma::mma_sync(sum[i][j], a[i], b[j], sum[i][j]);
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            wmma::store_matrix_sync(C + (row0 + 16 * i) * N + col0 + 16 * j, sum[i][j], N, wmma::mem_row_major);
}
