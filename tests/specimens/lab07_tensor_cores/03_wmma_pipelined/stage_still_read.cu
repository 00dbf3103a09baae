// stage_still_read.cu: copies into the stage that is being multiplied.
// Entry:   matmul(const half A[M,K] in, const half B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(THREADS) grid=(cdiv(N, TSN), cdiv(M, TSM)) shared=SHARED

#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

using namespace nvcuda::wmma;

constexpr int TSM = 128;
constexpr int TSN = 256;
constexpr int TSK = 32;
constexpr int STAGES = 4;
constexpr int WSM = 64;
constexpr int WSN = 64;
constexpr int FRAGS_M = WSM / 16;
constexpr int FRAGS_N = WSN / 16;
constexpr int STEPS = TSK / 16;
constexpr int WARPS_N = TSN / WSN;
constexpr int WARPS = TSM / WSM * WARPS_N;
constexpr int THREADS = 32 * WARPS;
constexpr int CHUNK = 8;
constexpr int PAD = 8;
constexpr int LDA = TSK + PAD;
constexpr int LDB = TSN + PAD;
constexpr int LDC = 32 + PAD;
constexpr int ROWS_A = THREADS / (TSK / CHUNK);
constexpr int ROWS_B = THREADS / (TSN / CHUNK);
constexpr int STAGE = TSM * LDA + TSK * LDB;
constexpr int TILES = 2 * STAGES * STAGE;
constexpr int PATCHES = 4 * WARPS * 16 * LDC;
constexpr int SHARED = (TILES > PATCHES) * TILES + (TILES <= PATCHES) * PATCHES;

__device__ void copy_chunk(half* to, const half* matrix, int rows, int cols, int row, int col)
{
    const bool inside = row < rows && col < cols;
    const half* from = matrix + (inside ? row * cols + col : 0);
    if (cols % CHUNK == 0) {
        __pipeline_memcpy_async(to, from, 16, inside ? 0 : 16);
    } else {
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
    const int y = warp / WARPS_N * WSM;
    const int x = warp % WARPS_N * WSN;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    const int tiles = (K + TSK - 1) / TSK;

    const int rowA = thread / (TSK / CHUNK);
    const int colA = thread % (TSK / CHUNK) * CHUNK;
    const int rowB = thread / (TSN / CHUNK);
    const int colB = thread % (TSN / CHUNK) * CHUNK;
    const half* const fromA = A + (row0 + rowA) * K + colA;
    const half* const fromB = B + rowB * N + col0 + colB;
    const bool whole = K % CHUNK == 0 && N % CHUNK == 0 && row0 + TSM <= M && col0 + TSN <= N;
    const auto copy = [&](int tile) {
        half* toA = stages + tile % STAGES * STAGE + rowA * LDA + colA;
        half* toB = stages + tile % STAGES * STAGE + TSM * LDA + rowB * LDB + colB;
        const int k0 = tile * TSK;
        if (whole && k0 + TSK <= K) {
            #pragma unroll
            for (int row = 0; row < TSM; row += ROWS_A) {
                __pipeline_memcpy_async(toA + row * LDA, fromA + row * K + k0, 16);  // expect: RACE
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
                copy(tile + STAGES);
            }
            if (step + 1 < STEPS) {
                fetch(tile, step + 1);
            } else {
                __pipeline_wait_prior(STAGES - 2);
                __syncthreads();
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
    __syncthreads();

    float* patch = reinterpret_cast<float*>(stages) + warp * 16 * LDC;
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
