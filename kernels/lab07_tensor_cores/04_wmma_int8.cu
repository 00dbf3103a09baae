// 04_wmma_int8.cu: C = A * Bt^T for 8-bit integers on tensor cores.
// Idea:    tensor cores multiply bytes twice as fast as halves, and add them up as ints: nothing is rounded. With B
//          transposed, rows of both matrices run along k. A fragment of B is then a col_major one.
// From:    03_wmma_pipelined.cu
// Limits:  the same as before; and K up to 131071, where a sum of 128 * 128 may leave an int.
// Entry:   matmul_bt(const signed char A[M,K] in, const signed char Bt[N,K] in, int C[M,N] out, int M, int N, int K)
// Needs:   K <= 131071
// Launch:  matmul_bt block=(THREADS) grid=(cdiv(N, TSN), cdiv(M, TSM)) shared=SHARED

#include <cuda_pipeline.h>
#include <mma.h>

using namespace nvcuda::wmma;

constexpr int TSM = 128;           // a block computes TSM x TSN elements of C
constexpr int TSN = 256;
constexpr int TSK = 64;            // steps of k in one tile
constexpr int STAGES = 4;          // tiles in shared memory
constexpr int WSM = 64;            // a warp computes WSM x WSN elements,
constexpr int WSN = 64;
constexpr int FRAGS_M = WSM / 16;  // in so many fragments
constexpr int FRAGS_N = WSN / 16;
constexpr int STEPS = TSK / 16;    // products of 16 steps of k in one tile
constexpr int WARPS_N = TSN / WSN;
constexpr int WARPS = TSM / WSM * WARPS_N;
constexpr int THREADS = 32 * WARPS;
constexpr int CHUNK = 16;          // bytes, the widest copy
constexpr int PAD = 16;            // bytes: eight neighbouring rows of 16 bytes then lie in different banks
constexpr int LD = TSK + PAD;      // leading dimension of both tiles in shared memory
constexpr int LDC = 32 + PAD;      // and of the patch through which a warp writes two fragments at an edge
constexpr int ROWS = THREADS / (TSK / CHUNK);  // rows that the block's threads copy at a time
constexpr int STAGE = (TSM + TSN) * LD;       // bytes of shared memory for one tile of A and one of B
constexpr int TILES = STAGES * STAGE;         // for all of them
constexpr int PATCHES = 4 * WARPS * 16 * LDC;
constexpr int SHARED = (TILES > PATCHES) * TILES + (TILES <= PATCHES) * PATCHES;

static_assert(TSM % WSM == 0 && TSN % WSN == 0, "the warps' tiles cover the block's exactly");
static_assert(WSM % 16 == 0 && WSN % 32 == 0 && TSK % 16 == 0, "a warp's tile is made of pairs of fragments");
static_assert(TSM % ROWS == 0 && TSN % ROWS == 0, "all threads copy equally much");
static_assert(STAGES >= 2 && THREADS <= 1024, "one tile is multiplied while another is copied");
static_assert(STAGE % 32 == 0, "every tile starts on 32 bytes");
static_assert(SHARED <= 227 * 1024, "a block of an H100 has 227 KB of shared memory");

// Starts to copy the 16 bytes from (row, col) on to shared memory; those outside the matrix become zero.
__device__ void copy_chunk(signed char* to, const signed char* matrix, int rows, int cols, int row, int col)
{
    const bool inside = row < rows && col < cols;
    const signed char* from = matrix + (inside ? static_cast<size_t>(row) * cols + col : 0);
    if (cols % CHUNK == 0) {
        __pipeline_memcpy_async(to, from, 16, inside ? 0 : 16);  // the last argument: so many bytes of zeros instead
    } else {  // rows do not start on 16 bytes: byte by byte, through registers
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
    const int y = warp / WARPS_N * WSM;  // the warp's first row and column in the block's tile
    const int x = warp % WARPS_N * WSN;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    const int tiles = (K + TSK - 1) / TSK;

    // A thread copies the same chunk of every ROWS-th row of A and of Bt.
    const int row1 = thread / (TSK / CHUNK);
    const int col1 = thread % (TSK / CHUNK) * CHUNK;
    const signed char* const fromA = A + static_cast<size_t>(row0 + row1) * K + col1;
    const signed char* const fromB = Bt + static_cast<size_t>(col0 + row1) * K + col1;
    const bool whole = K % CHUNK == 0 && row0 + TSM <= M && col0 + TSN <= N;
    const auto copy = [&](int tile) {  // starts the copies of a tile and commits them, be there any or none
        signed char* toA = stages + tile % STAGES * STAGE + row1 * LD + col1;
        signed char* toB = toA + TSM * LD;
        const int k0 = tile * TSK;
        // BEGIN SOLUTION: chunks of every ROWS-th row: at once in whole tiles, else by copy_chunk (about 17 lines)
        // END SOLUTION
        __pipeline_commit();
    };

    fragment<accumulator, 16, 16, 16, int> sum[FRAGS_M][FRAGS_N];
    for (int i = 0; i < FRAGS_M; ++i) {
        for (int j = 0; j < FRAGS_N; ++j) {
            fill_fragment(sum[i][j], 0);
        }
    }

    // Fragments for two steps of k: one being multiplied, one on its way from shared memory.
    fragment<matrix_a, 16, 16, 16, signed char, row_major> a[2][FRAGS_M];
    fragment<matrix_b, 16, 16, 16, signed char, col_major> b[2][FRAGS_N];
    const auto fetch = [&](int tile, int step) {
        const signed char* tileA = stages + tile % STAGES * STAGE;
        const signed char* tileB = tileA + TSM * LD;
        // BEGIN SOLUTION: the warp's fragments of this step into a[step % 2] and b[step % 2] (about 8 lines)
        // END SOLUTION
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

    int* patch = reinterpret_cast<int*>(stages) + warp * 16 * LDC;
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
