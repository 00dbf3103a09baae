// b_row_major.cu: takes the rows of the tile of Bt for rows of B.
// Entry:   matmul_bt(const signed char A[M,K] in, const signed char Bt[N,K] in, int C[M,N] out, int M, int N, int K)
// Needs:   K <= 131071
// Launch:  matmul_bt block=(THREADS) grid=(cdiv(N, TSN), cdiv(M, TSM)) shared=SHARED
//
// expect: WA

#include <cuda_pipeline.h>
#include <mma.h>

using namespace nvcuda::wmma;

constexpr int TSM = 128;
constexpr int TSN = 256;
constexpr int TSK = 64;
constexpr int STAGES = 4;
constexpr int WSM = 64;
constexpr int WSN = 64;
constexpr int FRAGS_M = WSM / 16;
constexpr int FRAGS_N = WSN / 16;
constexpr int STEPS = TSK / 16;
constexpr int WARPS_N = TSN / WSN;
constexpr int WARPS = TSM / WSM * WARPS_N;
constexpr int THREADS = 32 * WARPS;
constexpr int CHUNK = 16;
constexpr int PAD = 16;
constexpr int LD = TSK + PAD;
constexpr int LDC = 32 + PAD;
constexpr int ROWS = THREADS / (TSK / CHUNK);
constexpr int STAGE = (TSM + TSN) * LD;
constexpr int TILES = STAGES * STAGE;
constexpr int PATCHES = 4 * WARPS * 16 * LDC;
constexpr int SHARED = (TILES > PATCHES) * TILES + (TILES <= PATCHES) * PATCHES;

__device__ void copy_chunk(signed char* to, const signed char* matrix, int rows, int cols, int row, int col)
{
    const bool inside = row < rows && col < cols;
    const signed char* from = matrix + (inside ? static_cast<size_t>(row) * cols + col : 0);
    if (cols % CHUNK == 0) {
        __pipeline_memcpy_async(to, from, 16, inside ? 0 : 16);
    } else {
        __align__(16) signed char each[CHUNK];
        #pragma unroll
        for (int i = 0; i < CHUNK; ++i) {
            each[i] = inside && col + i < cols ? from[i] : 0;
        }
        *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(each);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
matmul_bt(const signed char* __restrict__ A, const signed char* __restrict__ Bt, int* __restrict__ C,
          int M, int N, int K)
{
    extern __shared__ __align__(128) signed char stages[];
    const int thread = threadIdx.x;
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int y = warp / WARPS_N * WSM;
    const int x = warp % WARPS_N * WSN;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    const int tiles = (K + TSK - 1) / TSK;

    const int row1 = thread / (TSK / CHUNK);
    const int col1 = thread % (TSK / CHUNK) * CHUNK;
    const signed char* const fromA = A + static_cast<size_t>(row0 + row1) * K + col1;
    const signed char* const fromB = Bt + static_cast<size_t>(col0 + row1) * K + col1;
    const bool whole = K % CHUNK == 0 && row0 + TSM <= M && col0 + TSN <= N;
    const auto copy = [&](int tile) {
        signed char* toA = stages + tile % STAGES * STAGE + row1 * LD + col1;
        signed char* toB = toA + TSM * LD;
        const int k0 = tile * TSK;
        if (whole && k0 + TSK <= K) {
            #pragma unroll
            for (int row = 0; row < TSM; row += ROWS) {
                __pipeline_memcpy_async(toA + row * LD, fromA + row * K + k0, 16);
            }
            #pragma unroll
            for (int row = 0; row < TSN; row += ROWS) {
                __pipeline_memcpy_async(toB + row * LD, fromB + row * K + k0, 16);
            }
        } else if (k0 < K) {
            for (int row = 0; row < TSM; row += ROWS) {
                copy_chunk(toA + row * LD, A, M, K, row0 + row1 + row, k0 + col1);
            }
            for (int row = 0; row < TSN; row += ROWS) {
                copy_chunk(toB + row * LD, Bt, N, K, col0 + row1 + row, k0 + col1);
            }
        }
        __pipeline_commit();
    };

    fragment<accumulator, 16, 16, 16, int> sum[FRAGS_M][FRAGS_N];
    for (int i = 0; i < FRAGS_M; ++i) {
        for (int j = 0; j < FRAGS_N; ++j) {
            fill_fragment(sum[i][j], 0);
        }
    }

    fragment<matrix_a, 16, 16, 16, signed char, row_major> a[2][FRAGS_M];
    fragment<matrix_b, 16, 16, 16, signed char, row_major> b[2][FRAGS_N];
    const auto fetch = [&](int tile, int step) {
        const signed char* tileA = stages + tile % STAGES * STAGE;
        const signed char* tileB = tileA + TSM * LD;
        #pragma unroll
        for (int i = 0; i < FRAGS_M; ++i) {
            load_matrix_sync(a[step % 2][i], tileA + (y + i * 16) * LD + step * 16, LD);
        }
        #pragma unroll
        for (int j = 0; j < FRAGS_N; ++j) {
            load_matrix_sync(b[step % 2][j], tileB + (x + j * 16) * LD + step * 16, LD);
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
                copy(tile + STAGES - 1);
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

    int* patch = reinterpret_cast<int*>(stages) + warp * 16 * LDC;
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
