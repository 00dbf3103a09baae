// unpadded.cu: rows without padding begin in the same bank.
// Entry:   matmul(const half A[M,K] in, const half B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(THREADS) grid=(cdiv(N, TSN), cdiv(M, TSM))

#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

constexpr int TSM = 128;
constexpr int TSN = 128;
constexpr int TSK = 64;
constexpr int WSM = 64;
constexpr int WSN = 64;
constexpr int FRAGS_M = WSM / 16;
constexpr int FRAGS_N = WSN / 16;
constexpr int WARPS_N = TSN / WSN;
constexpr int WARPS = TSM / WSM * WARPS_N;
constexpr int THREADS = 32 * WARPS;
constexpr int PAD = 0;
constexpr int CHUNK = 8;
constexpr int LDA = TSK + PAD;
constexpr int LDB = TSN + PAD;
constexpr int LDC = 40;
constexpr int ROWS_A = THREADS / (TSK / CHUNK);
constexpr int ROWS_B = THREADS / (TSN / CHUNK);

__device__ uint4 load_chunk(const half* matrix, int rows, int cols, int row, int col)
{
    uint4 chunk = make_uint4(0, 0, 0, 0);
    if (row < rows && col < cols) {
        const half* from = matrix + row * cols + col;
        if (cols % CHUNK == 0) {
            chunk = *reinterpret_cast<const uint4*>(from);
        } else {
            half* each = reinterpret_cast<half*>(&chunk);
            #pragma unroll
            for (int i = 0; i < CHUNK; ++i) {
                if (col + i < cols) each[i] = from[i];
            }
        }
    }
    return chunk;
}

extern "C" __global__ void __launch_bounds__(THREADS)
matmul(const half* __restrict__ A, const half* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    __shared__ __align__(32) half tileA[TSM][LDA];
    __shared__ __align__(32) half tileB[TSK][LDB];
    __shared__ __align__(32) float patch[WARPS][16][LDC];
    const int thread = threadIdx.x;
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int y = warp / WARPS_N * WSM;
    const int x = warp % WARPS_N * WSN;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    const int rowA = thread / (TSK / CHUNK);
    const int colA = thread % (TSK / CHUNK) * CHUNK;
    const int rowB = thread / (TSN / CHUNK);
    const int colB = thread % (TSN / CHUNK) * CHUNK;
    const half* const fromA = A + (row0 + rowA) * K + colA;
    const half* const fromB = B + rowB * N + col0 + colB;
    const bool whole = K % CHUNK == 0 && N % CHUNK == 0 && row0 + TSM <= M && col0 + TSN <= N;

    fragment<accumulator, 16, 16, 16, float> sum[FRAGS_M][FRAGS_N];
    for (int i = 0; i < FRAGS_M; ++i) {
        for (int j = 0; j < FRAGS_N; ++j) {
            fill_fragment(sum[i][j], 0.0f);
        }
    }

    for (int k0 = 0; k0 < K; k0 += TSK) {
        if (whole && k0 + TSK <= K) {
            #pragma unroll
            for (int row = 0; row < TSM; row += ROWS_A) {
                const uint4 chunk = *reinterpret_cast<const uint4*>(fromA + row * K + k0);
                *reinterpret_cast<uint4*>(&tileA[rowA + row][colA]) = chunk;
            }
            #pragma unroll
            for (int row = 0; row < TSK; row += ROWS_B) {
                const uint4 chunk = *reinterpret_cast<const uint4*>(fromB + (k0 + row) * N);
                *reinterpret_cast<uint4*>(&tileB[rowB + row][colB]) = chunk;
            }
        } else {
            for (int row = rowA; row < TSM; row += ROWS_A) {
                *reinterpret_cast<uint4*>(&tileA[row][colA]) = load_chunk(A, M, K, row0 + row, k0 + colA);
            }
            for (int row = rowB; row < TSK; row += ROWS_B) {
                *reinterpret_cast<uint4*>(&tileB[row][colB]) = load_chunk(B, K, N, k0 + row, col0 + colB);
            }
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < TSK; k += 16) {
            fragment<matrix_a, 16, 16, 16, half, row_major> a[FRAGS_M];
            fragment<matrix_b, 16, 16, 16, half, row_major> b[FRAGS_N];
            for (int i = 0; i < FRAGS_M; ++i) {
                load_matrix_sync(a[i], &tileA[y + i * 16][k], LDA);  // expect: PERF
            }
            for (int j = 0; j < FRAGS_N; ++j) {
                load_matrix_sync(b[j], &tileB[k][x + j * 16], LDB);
            }
            for (int i = 0; i < FRAGS_M; ++i) {
                for (int j = 0; j < FRAGS_N; ++j) {
                    mma_sync(sum[i][j], a[i], b[j], sum[i][j]);
                }
            }
        }
        __syncthreads();
    }

    #pragma unroll
    for (int i = 0; i < FRAGS_M; ++i) {
        #pragma unroll
        for (int j = 0; j < FRAGS_N; j += 2) {
            const int row = row0 + y + i * 16;
            const int col = col0 + x + j * 16;
            if (N % 8 == 0 && row + 16 <= M && col + 32 <= N) {
                store_matrix_sync(C + row * N + col, sum[i][j], N, mem_row_major);
                store_matrix_sync(C + row * N + col + 16, sum[i][j + 1], N, mem_row_major);
            } else {
                store_matrix_sync(&patch[warp][0][0], sum[i][j], LDC, mem_row_major);
                store_matrix_sync(&patch[warp][0][16], sum[i][j + 1], LDC, mem_row_major);
                __syncwarp();
                for (int r = 0; r < 16; ++r) {
                    if (row + r < M && col + lane < N) C[(row + r) * N + col + lane] = patch[warp][r][lane];
                }
                __syncwarp();
            }
        }
    }
}
