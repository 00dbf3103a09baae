// 05_mma_ptx.cu: C = A * B on tensor cores, by the instructions that wmma hides.
// Idea:    PTX says which lane holds which element of a fragment. Then ldmatrix loads four 8 x 8 matrices at once,
//          and each of its 32 lanes names a row of 16 bytes, anywhere: the rows of a tile are swizzled (their 16-byte
//          chunks XORed with the row's number), so that eight rows lie in different banks without padding. And
//          fragments are loaded one step of k ahead, across tiles too, between the products: first they, then the
//          copies, which would hold them up. The tensor cores never wait for long.
// From:    03_wmma_pipelined.cu
// Limits:  mma.sync cannot feed Hopper's tensor cores: about 0.6 of their peak. And what a warp does beside its products,
//          ldmatrix and copies above all, takes time from them.
// Entry:   matmul(const half A[M,K] in, const half B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(THREADS) grid=(cdiv(M, TSM) * cdiv(N, TSN)) shared=SHARED

#include <cuda_fp16.h>
#include <cuda_pipeline.h>

constexpr int TSM = 128;            // a block computes TSM x TSN elements of C
constexpr int TSN = 256;
constexpr int TSK = 64;             // steps of k in one tile
constexpr int STAGES = 3;           // tiles in shared memory
constexpr int WSM = 64;             // a warp computes WSM x WSN elements,
constexpr int WSN = 64;
constexpr int FRAGS_M = WSM / 16;   // in fragments of 16 x 8
constexpr int FRAGS_N = WSN / 8;
constexpr int GROUP = 16;           // rows of blocks that share the L2 cache
constexpr int STEPS = TSK / 16;     // products of 16 steps of k in one tile
constexpr int PRODUCTS = FRAGS_M * FRAGS_N;     // of a warp for 16 steps of k
constexpr int FETCHES = FRAGS_M + FRAGS_N / 2;  // ldmatrix for them, 16 x 16 elements each
constexpr int WARPS_N = TSN / WSN;
constexpr int THREADS = TSM / WSM * WARPS_N * 32;
constexpr int CHUNK = 8;            // halves in 16 bytes: what a copy moves and a lane of ldmatrix names
constexpr int CHUNKS_A = TSK / CHUNK;  // chunks in a row of a tile
constexpr int CHUNKS_B = TSN / CHUNK;
constexpr int ROWS_A = THREADS / CHUNKS_A;  // rows that the block's threads copy at a time
constexpr int ROWS_B = THREADS / CHUNKS_B;
constexpr int COPIES_A = TSM / ROWS_A;      // copies of a thread for one tile: of A,
constexpr int COPIES = COPIES_A + TSK / ROWS_B;  // and in all
constexpr int COPIES_STEP = (COPIES + STEPS - 1) / STEPS;  // those that a step starts
constexpr int STAGE = 2 * (TSM * TSK + TSK * TSN);  // bytes of shared memory for one tile of A and one of B
constexpr int SHARED = STAGES * STAGE;

static_assert(TSM % WSM == 0 && TSN % WSN == 0, "the warps' tiles cover the block's exactly");
static_assert(WSM % 16 == 0 && WSN % 16 == 0 && TSK % 32 == 0, "ldmatrix loads 16 x 16 elements, two steps a turn");
static_assert(CHUNKS_A == 4 || CHUNKS_A == 8, "128 bytes of shared memory hold one or two rows of A's tile");
static_assert(CHUNKS_B % 8 == 0, "a row of B's tile covers all banks");
static_assert(TSM % ROWS_A == 0 && TSK % ROWS_B == 0, "all threads copy equally much");
static_assert(ROWS_A % 8 == 0 && ROWS_B % 8 == 0, "all rows of a thread are swizzled alike");
static_assert(SHARED <= 227 * 1024, "a block of an H100 has 227 KB of shared memory");
static_assert(STAGES >= 3 && THREADS <= 1024, "one tile is multiplied while the next one lands and another is copied");
static_assert(FETCHES + COPIES_STEP <= PRODUCTS, "a step has products enough between which to load and to copy");

// Where a chunk lies in its tile: rows are swizzled so that eight chunks below each other fill all 32 banks.
__device__ int place_in_A(int row, int chunk)
{
    return (row * CHUNKS_A + (chunk ^ row * CHUNKS_A / 8 % CHUNKS_A)) * CHUNK;
}
__device__ int place_in_B(int row, int chunk) { return (row * CHUNKS_B + (chunk ^ row % 8)) * CHUNK; }

// Starts to copy 16 bytes on to shared memory, if `may` says so; zeros arrive, and nothing is read, unless they are
// `inside` the matrix. Both are predicates of the instruction: no branch parts the products around it.
__device__ void copy_chunk(unsigned to, const half* from, bool inside, bool may)
{
    asm volatile("{\n"
                 ".reg .pred outside, may;\n"
                 "setp.eq.s32 outside, %2, 0;\n"
                 "setp.ne.s32 may, %3, 0;\n"
                 "@may cp.async.cg.shared.global.L2::128B [%0], [%1], 16, outside;\n"
                 "}\n" :: "r"(to), "l"(from), "r"(static_cast<int>(inside)), "r"(static_cast<int>(may)) : "memory");
}

// Copies the eight halves from (row, col) on one by one; those outside the matrix become zero.
__device__ void copy_halves(unsigned to, const half* matrix, int rows, int cols, int row, int col)
{
    const auto element = [&](int i) {
        const bool inside = row >= 0 && row < rows && col + i >= 0 && col + i < cols;
        return inside ? matrix[row * cols + col + i] : __float2half(0.0f);
    };
    unsigned pairs[CHUNK / 2];
    #pragma unroll
    for (int i = 0; i < CHUNK / 2; ++i) {
        const half2 pair = __halves2half2(element(2 * i), element(2 * i + 1));
        pairs[i] = reinterpret_cast<const unsigned&>(pair);
    }
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                 :: "r"(to), "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3]) : "memory");
}

// Loads four 8 x 8 matrices; lane l names row l % 8 of matrix l / 8 and gets two neighbours of row l / 4 of each.
__device__ void load_matrices(unsigned (&matrices)[4], unsigned row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3]) : "r"(row) : "memory");
}

// The same, transposed: gets two neighbours of column l / 4 of each.
__device__ void load_matrices_transposed(unsigned (&matrices)[4], unsigned row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3]) : "r"(row) : "memory");
}

// sum (16 x 8) += a (16 x 16) * b (16 x 8)
__device__ void multiply(float (&sum)[4], const unsigned (&a)[4], const unsigned* b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Writes four neighbours in a row, except those outside the matrix.
__device__ void store_four(float* C, int M, int N, int row, int col, float4 four)
{
    if (row < M && col < N) {
        float* to = C + row * N + col;
        if (N % 4 == 0) {
            *reinterpret_cast<float4*>(to) = four;
        } else {
            to[0] = four.x;
            if (col + 1 < N) to[1] = four.y;
            if (col + 2 < N) to[2] = four.z;
            if (col + 3 < N) to[3] = four.w;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
matmul(const half* __restrict__ A, const half* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    extern __shared__ __align__(128) half stages[];
    const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(stages));
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

    // The last tile ends with K, so that the first one may begin before 0: only its copies need bounds.
    const int begin = K - tiles * TSK;
    // A thread copies the same chunk of every ROWS_A-th row of A and of every ROWS_B-th row of B; past M and N the last
    // ones again: their products are not stored. Each copy has a pointer of its own. It goes on by a tile just before
    // its next use: right after a copy it would wait until that has read its address.
    const int rowA = thread / CHUNKS_A;
    const int colA = thread % CHUNKS_A * CHUNK;
    const int rowB = thread / CHUNKS_B;
    const int colB = thread % CHUNKS_B * CHUNK;
    const int toA = place_in_A(rowA, colA / CHUNK);
    const int toB = TSM * TSK + place_in_B(rowB, colB / CHUNK);
    const bool aligned = K % CHUNK == 0 && N % CHUNK == 0;  // if not, rows do not start on 16 bytes
    const half* from[COPIES];
    #pragma unroll
    for (int i = 0; i < COPIES; ++i) {
        from[i] = i < COPIES_A ? A + min(row0 + rowA + i * ROWS_A, M - 1) * K + begin + colA - TSK
                               : B + (begin + rowB + (i - COPIES_A) * ROWS_B - TSK) * N + min(col0 + colB, N - CHUNK);
    }
    const auto copy = [&](unsigned stage, int i, bool inside) {
        if (i < COPIES_A) {
            from[i] += TSK;
            copy_chunk(stage + 2 * toA + 2 * i * ROWS_A * TSK, from[i], inside, aligned);
        } else {
            from[i] += TSK * N;
            copy_chunk(stage + 2 * toB + 2 * (i - COPIES_A) * ROWS_B * TSN, from[i], inside, aligned);
        }
    };
    const auto copy_unaligned = [&](int tile, unsigned stage) {
        const int k = begin + tile * TSK;
        #pragma unroll 1
        for (int row = 0; row < TSM; row += ROWS_A) {
            copy_halves(stage + 2 * (toA + row * TSK), A, M, K, row0 + rowA + row, k + colA);
        }
        #pragma unroll 1
        for (int row = 0; row < TSK; row += ROWS_B) {
            copy_halves(stage + 2 * (toB + row * TSN), B, K, N, k + rowB + row, col0 + colB);
        }
    };

    unsigned a[2][FRAGS_M][4];      // fragments for two steps of k: one being multiplied, one in flight
    unsigned b[2][FRAGS_N / 2][4];  // two fragments of B each
    float sum[FRAGS_M][FRAGS_N][4] = {};
    int beginA[STEPS] = {};  // where a lane's rows begin in A's tile; 16 rows further on all is swizzled alike
    int beginB[FRAGS_N / 2] = {};  // and in B's
    // BEGIN SOLUTION: where a lane's row of 16 x 16 elements begins: A's by step of k, B's by columns (about 8 lines)
    #pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        beginA[step] = place_in_A(y + lane % 16, step * 2 + lane / 16);
    }
    #pragma unroll
    for (int j = 0; j < FRAGS_N / 2; ++j) {
        beginB[j] = place_in_B(lane % 16, x / CHUNK + j * 2 + lane / 16);
    }
    // END SOLUTION
    const auto fetch = [&](unsigned stage, int step, int n) {  // A's first fragment, all of B's, the rest of A's
        if (n == 0 || n > FRAGS_N / 2) {
            const int i = n == 0 ? 0 : n - FRAGS_N / 2;
            load_matrices(a[step % 2][i], stage + 2 * beginA[step] + 2 * i * 16 * TSK);
        } else {
            load_matrices_transposed(b[step % 2][n - 1], stage + 2 * beginB[n - 1] + 2 * (TSM * TSK + step * 16 * TSN));
        }
    };

    for (int tile = 0; tile < STAGES - 1; ++tile) {
        if (!aligned) copy_unaligned(tile, base + tile * STAGE);
        #pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            #pragma unroll
            for (int i = step * COPIES_STEP; i < COPIES && i < (step + 1) * COPIES_STEP; ++i) {
                const int k = begin + tile * TSK + (i < COPIES_A ? colA : rowB + (i - COPIES_A) * ROWS_B);
                copy(base + tile * STAGE, i, k >= 0 && k < K);
            }
            __pipeline_commit();  // a group of copies for every step, here and below
        }
    }
    __pipeline_wait_prior((STAGES - 2) * STEPS);
    __syncthreads();
    #pragma unroll
    for (int n = 0; n < FETCHES; ++n) {
        fetch(base, 0, n);
    }
    unsigned stage = base;                        // this tile's,
    unsigned last = base + (STAGES - 1) * STAGE;  // and that of the tile before it, which nobody reads any more
    for (int tile = 0; tile < tiles; ++tile) {
        const unsigned next = stage == base + (STAGES - 1) * STAGE ? base : stage + STAGE;
        const bool more = tile + STAGES - 1 < tiles;
        if (!aligned) copy_unaligned(tile + STAGES - 1, last);
        // What a warp does before a product: first it loads the next step's fragments, one by one; before the last
        // products it starts copies, behind which the fragments would have to wait.
        const auto meanwhile = [&](int step, int product) {
            if (product < FETCHES) fetch(step + 1 < STEPS ? stage : next, (step + 1) % STEPS, product);
            const int late = product - (PRODUCTS - COPIES_STEP);
            const int i = step * COPIES_STEP + late;
            if (late >= 0 && i < COPIES) copy(last, i, more);
        };
        #pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (step + 1 == STEPS) {
                __pipeline_wait_prior((STAGES - 2) * STEPS - 1);
                __syncthreads();  // the next tile has landed, and everybody has fetched all of this one
            }
            // BEGIN SOLUTION: the step's products, each after meanwhile(step, its number), to and fro (about 9 lines)
            #pragma unroll
            for (int i = 0; i < FRAGS_M; ++i) {
                #pragma unroll
                for (int turn = 0; turn < FRAGS_N; ++turn) {
                    const int j = i % 2 == 0 ? turn : FRAGS_N - 1 - turn;
                    meanwhile(step, i * FRAGS_N + turn);
                    multiply(sum[i][j], a[step % 2][i], &b[step % 2][j / 2][j % 2 * 2]);
                }
            }
            // END SOLUTION
            __pipeline_commit();
        }
        last = stage;
        stage = next;
    }

    // Two neighbours in a row are too few to store well. Of two fragments side by side, lanes 0 and 2 of four take the
    // left one, 1 and 3 the right one: each gives two elements to its neighbour, gets two, and has four in a row.
    const bool odd = lane % 2 == 1;
    #pragma unroll
    for (int i = 0; i < FRAGS_M; ++i) {
        #pragma unroll
        for (int j = 0; j < FRAGS_N; j += 2) {
            #pragma unroll
            for (int lower = 0; lower < 2; ++lower) {  // rows lane / 4 and 8 + lane / 4
                const float* left_two = &sum[i][j][lower * 2];
                const float* right_two = &sum[i][j + 1][lower * 2];
                const float near = __shfl_xor_sync(0xffffffff, odd ? left_two[0] : right_two[0], 1);
                const float far = __shfl_xor_sync(0xffffffff, odd ? left_two[1] : right_two[1], 1);
                const int row = row0 + y + i * 16 + lower * 8 + lane / 4;
                const int col = col0 + x + (j + lane % 2) * 8 + lane % 4 / 2 * 4;
                store_four(C, M, N, row, col, odd ? make_float4(near, far, right_two[0], right_two[1])
                                                  : make_float4(left_two[0], left_two[1], near, far));
            }
        }
    }
}
