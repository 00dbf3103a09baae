// wmma_again.cu: right, but it is the kernel of step 03, by WMMA.
// Idea:    cp.async copies from global to shared memory past the registers, and a thread need not wait for it. So
//          STAGES tiles live in shared memory at once: one is multiplied, STAGES - 1 are on their way. Each thread
//          commits its copies of a tile as a group and waits for the oldest group only.
// From:    02_wmma_shared.cu
// Limits:  wmma hides where a fragment's elements live, so that shared memory needs padding and fragments cannot be
//          loaded ahead by hand.
// Entry:   matmul(const half A[M,K] in, const half B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(THREADS) grid=(cdiv(N, TSN), cdiv(M, TSM)) shared=SHARED

#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

using namespace nvcuda::wmma;
// expect: PERF

constexpr int TSM = 128;           // a block computes TSM x TSN elements of C
constexpr int TSN = 256;
constexpr int TSK = 32;            // steps of k in one tile
constexpr int STAGES = 4;          // tiles in shared memory
constexpr int WSM = 64;            // a warp computes WSM x WSN elements,
constexpr int WSN = 64;
constexpr int FRAGS_M = WSM / 16;  // in so many fragments
constexpr int FRAGS_N = WSN / 16;
constexpr int STEPS = TSK / 16;    // products of 16 steps of k in one tile
constexpr int WARPS_N = TSN / WSN;
constexpr int WARPS = TSM / WSM * WARPS_N;
constexpr int THREADS = 32 * WARPS;
constexpr int CHUNK = 8;           // halves in 16 bytes, the widest copy
constexpr int PAD = 8;             // 16 bytes: eight neighbouring rows of 16 bytes then lie in different banks
constexpr int LDA = TSK + PAD;     // leading dimensions of the tiles in shared memory
constexpr int LDB = TSN + PAD;
constexpr int LDC = 32 + PAD;      // and of the patch through which a warp writes two fragments at an edge
constexpr int ROWS_A = THREADS / (TSK / CHUNK);  // rows that the block's threads copy at a time
constexpr int ROWS_B = THREADS / (TSN / CHUNK);
constexpr int STAGE = TSM * LDA + TSK * LDB;  // halves of shared memory for one tile of A and one of B
constexpr int TILES = 2 * STAGES * STAGE;     // bytes for all of them
constexpr int PATCHES = 4 * WARPS * 16 * LDC;
constexpr int SHARED = (TILES > PATCHES) * TILES + (TILES <= PATCHES) * PATCHES;

static_assert(TSM % WSM == 0 && TSN % WSN == 0, "the warps' tiles cover the block's exactly");
static_assert(WSM % 16 == 0 && WSN % 32 == 0 && TSK % 16 == 0, "a warp's tile is made of pairs of fragments");
static_assert(TSM % ROWS_A == 0 && TSK % ROWS_B == 0, "all threads copy equally much");
static_assert(STAGES >= 2 && THREADS <= 1024, "one tile is multiplied while another is copied");
static_assert(STAGE % 16 == 0, "every tile starts on 32 bytes");
static_assert(SHARED <= 227 * 1024, "a block of an H100 has 227 KB of shared memory");

// Starts to copy the eight halves from (row, col) on to shared memory; those outside the matrix become zero.
__device__ void copy_chunk(half* to, const half* matrix, int rows, int cols, int row, int col)
{
    const bool inside = row < rows && col < cols;
    const half* from = matrix + (inside ? row * cols + col : 0);
    if (cols % CHUNK == 0) {
        __pipeline_memcpy_async(to, from, 16, inside ? 0 : 16);  // the last argument: so many bytes of zeros instead
    } else {  // rows do not start on 16 bytes: element by element, through registers
        __align__(16) half each[CHUNK];
        #pragma unroll
        for (int i = 0; i < CHUNK; ++i) {
            each[i] = inside && col + i < cols ? from[i] : __float2half(0.0f);
        }
        *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(each);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
matmul(const half* __restrict__ A, const half* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    extern __shared__ __align__(128) half stages[];
    const int thread = threadIdx.x;
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int y = warp / WARPS_N * WSM;  // the warp's first row and column in the block's tile
    const int x = warp % WARPS_N * WSN;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    const int tiles = (K + TSK - 1) / TSK;

    // A thread copies the same chunk of every ROWS_A-th row of A and of every ROWS_B-th row of B.
    const int rowA = thread / (TSK / CHUNK);
    const int colA = thread % (TSK / CHUNK) * CHUNK;
    const int rowB = thread / (TSN / CHUNK);
    const int colB = thread % (TSN / CHUNK) * CHUNK;
    const half* const fromA = A + (row0 + rowA) * K + colA;
    const half* const fromB = B + rowB * N + col0 + colB;
    const bool whole = K % CHUNK == 0 && N % CHUNK == 0 && row0 + TSM <= M && col0 + TSN <= N;
    const auto copy = [&](int tile) {  // starts the copies of a tile and commits them, be there any or none
        half* toA = stages + tile % STAGES * STAGE + rowA * LDA + colA;
        half* toB = stages + tile % STAGES * STAGE + TSM * LDA + rowB * LDB + colB;
        const int k0 = tile * TSK;
        if (whole && k0 + TSK <= K) {
            #pragma unroll
            for (int row = 0; row < TSM; row += ROWS_A) {
                __pipeline_memcpy_async(toA + row * LDA, fromA + row * K + k0, 16);
            }
            #pragma unroll
            for (int row = 0; row < TSK; row += ROWS_B) {
                __pipeline_memcpy_async(toB + row * LDB, fromB + (k0 + row) * N, 16);
            }
        } else if (k0 < K) {
            for (int row = 0; row < TSM; row += ROWS_A) {
                copy_chunk(toA + row * LDA, A, M, K, row0 + rowA + row, k0 + colA);
            }
            for (int row = 0; row < TSK; row += ROWS_B) {
                copy_chunk(toB + row * LDB, B, K, N, k0 + rowB + row, col0 + colB);
            }
        }
        __pipeline_commit();
    };

    fragment<accumulator, 16, 16, 16, float> sum[FRAGS_M][FRAGS_N];
    for (int i = 0; i < FRAGS_M; ++i) {
        for (int j = 0; j < FRAGS_N; ++j) {
            fill_fragment(sum[i][j], 0.0f);
        }
    }

    // Fragments for two steps of k: one being multiplied, one on its way from shared memory.
    fragment<matrix_a, 16, 16, 16, half, row_major> a[2][FRAGS_M];
    fragment<matrix_b, 16, 16, 16, half, row_major> b[2][FRAGS_N];
    const auto fetch = [&](int tile, int step) {
        const half* tileA = stages + tile % STAGES * STAGE;
        const half* tileB = tileA + TSM * LDA;
        #pragma unroll
        for (int i = 0; i < FRAGS_M; ++i) {
            load_matrix_sync(a[step % 2][i], tileA + (y + i * 16) * LDA + step * 16, LDA);
        }
        #pragma unroll
        for (int j = 0; j < FRAGS_N; ++j) {
            load_matrix_sync(b[step % 2][j], tileB + step * 16 * LDB + x + j * 16, LDB);
        }
    };

    for (int tile = 0; tile < STAGES - 1; ++tile) {
        copy(tile);
    }
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    fetch(0, 0);
    for (int tile = 0; tile < tiles; ++tile) {
        #pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (step == 0) {
                copy(tile + STAGES - 1);  // in the place of the tile before this one, which nobody reads any more
            }
            if (step + 1 < STEPS) {
                fetch(tile, step + 1);
            } else {
                __pipeline_wait_prior(STAGES - 2);
                __syncthreads();          // the next tile has landed, and everybody has fetched all of this one
                if (tile + 1 < tiles) fetch(tile + 1, 0);
            }
            #pragma unroll
            for (int i = 0; i < FRAGS_M; ++i) {
                #pragma unroll
                for (int j = 0; j < FRAGS_N; ++j) {
                    mma_sync(sum[i][j], a[step % 2][i], b[step % 2][j], sum[i][j]);
                }
            }
        }
    }
    __pipeline_wait_prior(0);
    __syncthreads();  // the tiles are used up: from here on the memory serves as patches

    float* patch = reinterpret_cast<float*>(stages) + warp * 16 * LDC;
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
                store_matrix_sync(patch, sum[i][j], LDC, mem_row_major);
                store_matrix_sync(patch + 16, sum[i][j + 1], LDC, mem_row_major);
                __syncwarp();
                for (int r = 0; r < 16; ++r) {
                    if (row + r < M && col + lane < N) C[(row + r) * N + col + lane] = patch[r * LDC + lane];
                }
                __syncwarp();
            }
        }
    }
}
