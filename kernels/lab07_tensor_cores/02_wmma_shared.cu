// 02_wmma_shared.cu: C = A * B on tensor cores, from tiles in shared memory.
// Idea:    a tensor core multiplies two 16 x 16 fragments in a few cycles: memory cannot keep up. So a block loads a
//          tile of A and a tile of B into shared memory once for all its warps, and a warp keeps many fragments of
//          C: FRAGS_M x FRAGS_N products need only FRAGS_M + FRAGS_N fragments of A and B.
//          What lies outside the matrices is loaded as zero, so every fragment is whole.
// From:    lab06_half_precision/01_half_storage.cu
// Limits:  all warps wait for the loads of a tile, then all multiply: one half of the chip is always idle.
// Entry:   matmul(const half A[M,K] in, const half B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(THREADS) grid=(cdiv(N, TSN), cdiv(M, TSM))

#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

constexpr int TSM = 128;           // a block computes TSM x TSN elements of C
constexpr int TSN = 128;
constexpr int TSK = 64;            // steps of k in one tile
constexpr int WSM = 64;            // a warp computes WSM x WSN of them,
constexpr int WSN = 64;
constexpr int FRAGS_M = WSM / 16;  // in so many fragments
constexpr int FRAGS_N = WSN / 16;
constexpr int WARPS_N = TSN / WSN;
constexpr int WARPS = TSM / WSM * WARPS_N;
constexpr int THREADS = 32 * WARPS;
constexpr int PAD = 8;             // 16 bytes: eight neighbouring rows of 16 bytes then lie in different banks
constexpr int CHUNK = 8;           // halves in 16 bytes, the widest load
constexpr int LDA = TSK + PAD;     // leading dimensions of the tiles in shared memory
constexpr int LDB = TSN + PAD;
constexpr int LDC = 32 + PAD;      // and of the patch through which a warp writes two fragments at an edge
constexpr int ROWS_A = THREADS / (TSK / CHUNK);  // rows that the block's threads load at a time
constexpr int ROWS_B = THREADS / (TSN / CHUNK);

static_assert(TSM % WSM == 0 && TSN % WSN == 0, "the warps' tiles cover the block's exactly");
static_assert(WSM % 16 == 0 && WSN % 32 == 0 && TSK % 16 == 0, "a warp's tile is made of pairs of fragments");
static_assert(TSM % ROWS_A == 0 && TSK % ROWS_B == 0, "all threads load equally much");
static_assert(THREADS <= 1024, "a block has at most 1024 threads");

// The eight halves from (row, col) on; those outside the matrix are zero.
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
    const int y = warp / WARPS_N * WSM;  // the warp's first row and column in the block's tile
    const int x = warp % WARPS_N * WSN;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    // A thread loads the same chunk of every ROWS_A-th row of A and of every ROWS_B-th row of B.
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
            // BEGIN SOLUTION: load both tiles, 16 bytes at a time, all of them inside the matrices (about 10 lines)
            // END SOLUTION
        } else {
            for (int row = rowA; row < TSM; row += ROWS_A) {
                *reinterpret_cast<uint4*>(&tileA[row][colA]) = load_chunk(A, M, K, row0 + row, k0 + colA);
            }
            for (int row = rowB; row < TSK; row += ROWS_B) {
                *reinterpret_cast<uint4*>(&tileB[row][colB]) = load_chunk(B, K, N, k0 + row, col0 + colB);
            }
        }
        __syncthreads();
        // BEGIN SOLUTION: per 16 steps of k, FRAGS_M + FRAGS_N loads, FRAGS_M * FRAGS_N products (about 16 lines)
        // END SOLUTION
        __syncthreads();  // nobody overwrites what others still read
    }

    #pragma unroll
    for (int i = 0; i < FRAGS_M; ++i) {
        #pragma unroll
        for (int j = 0; j < FRAGS_N; j += 2) {
            const int row = row0 + y + i * 16;
            const int col = col0 + x + j * 16;
            if (N % 8 == 0 && row + 16 <= M && col + 32 <= N) {  // inside, and every row starts on 32 bytes
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
