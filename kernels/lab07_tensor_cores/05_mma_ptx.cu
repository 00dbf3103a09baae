// 05_mma_ptx.cu: C = A * B on tensor cores, by the instructions that wmma hides.
// Idea:    PTX says which lane holds which element of a fragment. Then ldmatrix loads four 8 x 8 matrices at once,
//          and each of its 32 lanes names a row of 16 bytes, anywhere: the rows of a tile are swizzled (their 16-byte
//          chunks XORed with the row's number), so that eight rows lie in different banks without padding. And
//          fragments are loaded one step of k ahead, across tiles too: the tensor cores never wait for them.
// From:    03_wmma_pipelined.cu
// Limits:  mma.sync cannot feed Hopper's tensor cores: about 0.6 of their peak.
// Entry:   matmul(const half A[M,K] in, const half B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(THREADS) grid=(cdiv(M, TSM) * cdiv(N, TSN)) shared=SHARED

#include <cuda_fp16.h>
#include <cuda_pipeline.h>

constexpr int TSM = 128;            // a block computes TSM x TSN elements of C
constexpr int TSN = 256;
constexpr int TSK = 32;             // steps of k in one tile
constexpr int STAGES = 6;           // tiles in shared memory
constexpr int WSM = 64;             // a warp computes WSM x WSN elements,
constexpr int WSN = 64;
constexpr int FRAGS_M = WSM / 16;   // in fragments of 16 x 8
constexpr int FRAGS_N = WSN / 8;
constexpr int GROUP = 16;           // rows of blocks that share the L2 cache
constexpr int STEPS = TSK / 16;     // products of 16 steps of k in one tile
constexpr int WARPS_N = TSN / WSN;
constexpr int THREADS = TSM / WSM * WARPS_N * 32;
constexpr int CHUNK = 8;            // halves in 16 bytes: what a copy moves and a lane of ldmatrix names
constexpr int CHUNKS_A = TSK / CHUNK;  // chunks in a row of a tile
constexpr int CHUNKS_B = TSN / CHUNK;
constexpr int ROWS_A = THREADS / CHUNKS_A;  // rows that the block's threads copy at a time
constexpr int ROWS_B = THREADS / CHUNKS_B;
constexpr int STAGE = TSM * TSK + TSK * TSN;  // halves of shared memory for one tile of A and one of B
constexpr int SHARED = 2 * STAGES * STAGE;

static_assert(TSM % WSM == 0 && TSN % WSN == 0, "the warps' tiles cover the block's exactly");
static_assert(WSM % 16 == 0 && WSN % 16 == 0 && TSK % 32 == 0, "ldmatrix loads 16 x 16 elements, two steps a turn");
static_assert(CHUNKS_A == 4 || CHUNKS_A == 8, "128 bytes of shared memory hold one or two rows of A's tile");
static_assert(CHUNKS_B % 8 == 0, "a row of B's tile covers all banks");
static_assert(TSM % ROWS_A == 0 && TSK % ROWS_B == 0, "all threads copy equally much");
static_assert(ROWS_A % 8 == 0 && ROWS_B % 8 == 0, "all rows of a thread are swizzled alike");
static_assert(SHARED <= 227 * 1024, "a block of an H100 has 227 KB of shared memory");
static_assert(STAGES >= 2 && THREADS <= 1024, "one tile is multiplied while another is copied");

// Where a chunk lies in its tile: rows are swizzled so that eight chunks below each other fill all 32 banks.
__device__ int place_in_A(int row, int chunk)
{
    return (row * CHUNKS_A + (chunk ^ row * CHUNKS_A / 8 % CHUNKS_A)) * CHUNK;
}
__device__ int place_in_B(int row, int chunk) { return (row * CHUNKS_B + (chunk ^ row % 8)) * CHUNK; }

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

// Loads four 8 x 8 matrices; lane l names row l % 8 of matrix l / 8 and gets two neighbours of row l / 4 of each.
__device__ void load_matrices(unsigned (&matrices)[4], const half* row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row))) : "memory");
}

// The same, transposed: gets two neighbours of column l / 4 of each.
__device__ void load_matrices_transposed(unsigned (&matrices)[4], const half* row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row))) : "memory");
}

// sum (16 x 8) += a (16 x 16) * b (16 x 8)
__device__ void multiply(float (&sum)[4], const unsigned (&a)[4], const unsigned* b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Writes two neighbours in a row, except those outside the matrix.
__device__ void store_pair(float* C, int M, int N, int row, int col, float left, float right)
{
    if (row < M && col < N) {
        float* to = C + row * N + col;
        if (N % 2 == 0) {
            *reinterpret_cast<float2*>(to) = make_float2(left, right);
        } else {
            to[0] = left;
            if (col + 1 < N) to[1] = right;
        }
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
    // Blocks that run at the same time form a square, more or less: GROUP rows of blocks, column by column.
    const int across = (N + TSN - 1) / TSN;
    const int first = blockIdx.x / (GROUP * across) * GROUP;
    const int height = min(GROUP, (M + TSM - 1) / TSM - first);
    const int row0 = (first + blockIdx.x % (GROUP * across) % height) * TSM;
    const int col0 = blockIdx.x % (GROUP * across) / height * TSN;
    const int tiles = (K + TSK - 1) / TSK;

    // A thread copies the same chunk of every ROWS_A-th row of A and of every ROWS_B-th row of B.
    const int rowA = thread / CHUNKS_A;
    const int colA = thread % CHUNKS_A * CHUNK;
    const int rowB = thread / CHUNKS_B;
    const int colB = thread % CHUNKS_B * CHUNK;
    const half* const fromA = A + (row0 + rowA) * K + colA;
    const half* const fromB = B + rowB * N + col0 + colB;
    const bool whole = K % CHUNK == 0 && N % CHUNK == 0 && row0 + TSM <= M && col0 + TSN <= N;
    const int toA = place_in_A(rowA, colA / CHUNK);
    const int toB = TSM * TSK + place_in_B(rowB, colB / CHUNK);
    const auto copy = [&](int tile, half* stage) {  // starts a tile's copies and commits them, be there any or none
        const int k0 = tile * TSK;
        if (whole && k0 + TSK <= K) {
            #pragma unroll
            for (int row = 0; row < TSM; row += ROWS_A) {
                __pipeline_memcpy_async(stage + toA + row * TSK, fromA + row * K + k0, 16);
            }
            #pragma unroll
            for (int row = 0; row < TSK; row += ROWS_B) {
                __pipeline_memcpy_async(stage + toB + row * TSN, fromB + (k0 + row) * N, 16);
            }
        } else if (k0 < K) {
            for (int row = 0; row < TSM; row += ROWS_A) {
                copy_chunk(stage + toA + row * TSK, A, M, K, row0 + rowA + row, k0 + colA);
            }
            for (int row = 0; row < TSK; row += ROWS_B) {
                copy_chunk(stage + toB + row * TSN, B, K, N, k0 + rowB + row, col0 + colB);
            }
        }
        __pipeline_commit();
    };

    unsigned a[2][FRAGS_M][4];      // fragments for two steps of k: one being multiplied, one in flight
    unsigned b[2][FRAGS_N / 2][4];  // two fragments of B each
    float sum[FRAGS_M][FRAGS_N][4] = {};
    int beginA[STEPS] = {};  // where a lane's rows begin; 16 rows further on all is swizzled alike
    int beginB[FRAGS_N / 2] = {};
    // BEGIN SOLUTION: where a lane's row of 16 x 16 elements begins: A's by step of k, B's by columns (about 8 lines)
    // END SOLUTION
    const auto fetch = [&](const half* tileA, int step) {
        const half* tileB = tileA + TSM * TSK;
        #pragma unroll
        for (int i = 0; i < FRAGS_M; ++i) {
            load_matrices(a[step % 2][i], tileA + beginA[step] + i * 16 * TSK);
        }
        #pragma unroll
        for (int j = 0; j < FRAGS_N / 2; ++j) {
            load_matrices_transposed(b[step % 2][j], tileB + beginB[j] + step * 16 * TSN);
        }
    };

    for (int tile = 0; tile < STAGES - 1; ++tile) {
        copy(tile, stages + tile * STAGE);
    }
    half* stage = stages;                          // this tile's,
    half* last = stages + (STAGES - 1) * STAGE;  // the last one's that is on its way, and later the next one's
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    fetch(stage, 0);
    for (int tile = 0; tile < tiles; ++tile) {
        #pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (step == 0) {
                copy(tile + STAGES - 1, last);  // in the place of the tile before this one, which nobody reads any more
            }
            if (step + 1 < STEPS) {
                fetch(stage, step + 1);
            } else {
                last = stage;
                stage = stage == stages + (STAGES - 1) * STAGE ? stages : stage + STAGE;
                __pipeline_wait_prior(STAGES - 2);
                __syncthreads();                // the next tile has landed, and everybody has fetched all of this one
                if (tile + 1 < tiles) fetch(stage, 0);
            }
            // BEGIN SOLUTION: the products of this step, every other row from right to left (about 8 lines)
            // END SOLUTION
        }
    }

    #pragma unroll
    for (int i = 0; i < FRAGS_M; ++i) {
        #pragma unroll
        for (int j = 0; j < FRAGS_N; ++j) {
            const int row = row0 + y + i * 16 + lane / 4;
            const int col = col0 + x + j * 8 + lane % 4 * 2;
            store_pair(C, M, N, row, col, sum[i][j][0], sum[i][j][1]);
            store_pair(C, M, N, row + 8, col, sum[i][j][2], sum[i][j][3]);
        }
    }
}
