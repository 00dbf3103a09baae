// 06_tensor_cores.cu: the fused attention of 05 on tensor cores: halves in and out, sums in float32.
// Idea:    the fragment in which mma.sync leaves a row's scores is the one in which it takes a row's factors: lane by
//          lane, probabilities become the left side of the second product without leaving their registers. So a warp
//          owns 32 queries from beginning to end and shares no row with anybody. While scores are computed the
//          tile's values are on their way (cp.async), and while values are weighed the next tile's keys are. Powers are
//          powers of two: exp(x) = 2^(x log2 e), and log2 e goes into the scale.
// From:    05_fused.cu
// Limits:  probabilities are rounded to halves before they weigh values: errors of 2^-11 of each. Two barriers a tile.
// Entry:   attention(const half Q[HEADS,N,D] in, const half K[HEADS,N,D] in, const half V[HEADS,N,D] in,
//                    half O[HEADS,N,D] out, float L[HEADS,N] out, int causal, int HEADS, int N)
// Needs:   causal >= 0, causal <= 1, HEADS <= 65535, HEADS * N * D <= 2147483647
// Launch:  attention block=(THREADS) grid=(cdiv(N, TSQ), HEADS) shared=SHARED
// Usual:   causal = 0

#include <cuda_fp16.h>

constexpr int D = 64;             // numbers of a query, a key, a value: 64 or 128
constexpr int TSQ = 128;          // queries of a block
constexpr int TSK = 64;           // keys and values of a tile
constexpr int WSQ = 32;           // queries of a warp,
constexpr int FRAGS_Q = WSQ / 16; // in fragments of 16
constexpr int FRAGS_K = TSK / 8;  // fragments of 8 keys
constexpr int FRAGS_D = D / 8;    // and of 8 numbers of O
constexpr int THREADS = TSQ / WSQ * 32;
constexpr int CHUNK = 8;          // halves in 16 bytes: what a copy moves and a lane of ldmatrix names
constexpr int CHUNKS = D / CHUNK; // of a row
constexpr int ROWS = THREADS / CHUNKS;  // rows that the block's threads copy at a time
constexpr int SHARED = 2 * (TSQ + 2 * TSK) * D;
constexpr float LOG2E = 1.44269504f;
constexpr float LN2 = 0.69314718f;
constexpr unsigned ALL = 0xffffffffu;

static_assert(SHARED <= 99 * 1024, "a block fits into what a GeForce has, with heads of 128 numbers as well");
static_assert(D == 64 || D == 128, "a row covers all banks, once or twice");
static_assert(ROWS % 8 == 0 && TSK % ROWS == 0 && TSQ % ROWS == 0, "all rows of a thread are swizzled alike");
static_assert(TSK % 16 == 0 && WSQ % 16 == 0 && TSQ % WSQ == 0, "tiles are whole fragments");

// Where a chunk lies in its tile: rows are swizzled so that eight chunks below each other fill all 32 banks.
__device__ int place(int row, int chunk) { return (row * CHUNKS + (chunk ^ row % 8)) * CHUNK; }

// Starts to copy 16 bytes on to shared memory; zeros arrive, and nothing is read, unless they are `inside`.
__device__ void copy_chunk(unsigned to, const half* from, bool inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory");
}

// Starts to copy COUNT rows from row `first` on, by all threads; rows past the end become zero. A thread's rows lie
// ROWS apart and are swizzled alike.
template <int COUNT>
__device__ void copy_rows(unsigned to, const half* from, int first, int rows)
{
    const int row = threadIdx.x / CHUNKS;
    const int chunk = threadIdx.x % CHUNKS;
    to += 2 * place(row, chunk);
    from += (first + row) * D + chunk * CHUNK;
    #pragma unroll
    for (int i = 0; i < COUNT; i += ROWS) {
        copy_chunk(to + 2 * i * D, from + i * D, first + row + i < rows);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
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
__device__ void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ unsigned pack(float low, float high)
{
    const half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<const unsigned&>(pair);
}

extern "C" __global__ void __launch_bounds__(THREADS)
attention(const half* __restrict__ Q, const half* __restrict__ K, const half* __restrict__ V, half* __restrict__ O,
          float* __restrict__ L, int causal, int HEADS, int N)
{
    extern __shared__ __align__(256) half tiles[];  // rows of D halves begin where their bytes' number says so
    const unsigned tileQ = static_cast<unsigned>(__cvta_generic_to_shared(tiles));
    const unsigned tileK = tileQ + 2 * TSQ * D;
    const unsigned tileV = tileK + 2 * TSK * D;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    // The blocks that have most to do begin first: the last queries look at all keys.
    const int row0 = (gridDim.x - 1 - blockIdx.x) * TSQ;
    const int head = blockIdx.y * N * D;
    const int own = row0 + warp * WSQ;  // the warp's first query
    const float scale = rsqrtf(static_cast<float>(D)) * LOG2E;
    int end = N;  // keys that any query of this block looks at
    // BEGIN SOLUTION: up to the last query of the block, if causal (about 1 line)
    // END SOLUTION

    // Where this lane's row of 16 x 16 elements begins in each tile. Chunks further on differ from its own in the bits that
    // their number has: steps to them are exclusive ors, and rows further down, 8 or 16, are swizzled alike.
    const unsigned inQ = tileQ + 2 * place(warp * WSQ + lane % 16, lane / 16);
    const unsigned inK = tileK + 2 * place(lane / 16 * 8 + lane % 8, lane / 8 % 2);
    const unsigned inV = tileV + 2 * place(lane % 16, lane / 16);

    float largest[FRAGS_Q][2];  // of rows lane / 4 and lane / 4 + 8 of each fragment: of scores times scale
    float sum[FRAGS_Q][2];
    float out[FRAGS_Q][FRAGS_D][4] = {};
    #pragma unroll
    for (int i = 0; i < FRAGS_Q; ++i) {
        largest[i][0] = largest[i][1] = -INFINITY;
        sum[i][0] = sum[i][1] = 0.0f;
    }
    copy_rows<TSQ>(tileQ, Q + head, row0, N);
    copy_rows<TSK>(tileK, K + head, 0, N);

    for (int key0 = 0; key0 < end; key0 += TSK) {
        // BEGIN SOLUTION: the keys are there, and all have used the values before; the values may come (about 3 lines)
        // END SOLUTION

        float score[FRAGS_Q][FRAGS_K][4] = {};
        #pragma unroll
        for (int step = 0; step < D / 16; ++step) {
            unsigned a[FRAGS_Q][4];
            #pragma unroll
            for (int i = 0; i < FRAGS_Q; ++i) {
                load_matrices(a[i], (inQ ^ step * 32) + 2 * i * 16 * D);
            }
            #pragma unroll
            for (int j = 0; j < FRAGS_K; j += 2) {
                unsigned b[4];  // keys stand in rows, as mma.sync wants its right side: columns
                load_matrices(b, (inK ^ step * 32) + 2 * j * 8 * D);
                #pragma unroll
                for (int i = 0; i < FRAGS_Q; ++i) {
                    multiply(score[i][j], a[i], b[0], b[1]);
                    multiply(score[i][j + 1], a[i], b[2], b[3]);
                }
            }
        }

        if (key0 + TSK > N || (causal && key0 + TSK > own)) {
            // BEGIN SOLUTION: hide keys past the end, and those behind the query, if causal (about 10 lines)
            // END SOLUTION
        }

        #pragma unroll
        for (int i = 0; i < FRAGS_Q; ++i) {
            #pragma unroll
            for (int half_of = 0; half_of < 2; ++half_of) {
                const int at = half_of * 2;  // the row's two elements of each fragment
                // BEGIN SOLUTION: larger largest of four lanes; shrink; probabilities in place of scores (about 21 lines)
                // END SOLUTION
            }
        }

        // BEGIN SOLUTION: the values are there, and all have used the keys; the next keys may come (about 5 lines)
        // END SOLUTION

        #pragma unroll
        for (int step = 0; step < TSK / 16; ++step) {
            unsigned a[FRAGS_Q][4];
            // BEGIN SOLUTION: two fragments of scores, as halves, are one fragment of factors (about 7 lines)
            for (int i = 0; i < FRAGS_Q; ++i) {
                a[i][0] = a[i][1] = a[i][2] = a[i][3] = 0;
            }
            // END SOLUTION
            #pragma unroll
            for (int j = 0; j < FRAGS_D; j += 2) {
                unsigned b[4];
                load_matrices_transposed(b, (inV ^ j * 16) + 2 * step * 16 * D);
                #pragma unroll
                for (int i = 0; i < FRAGS_Q; ++i) {
                    multiply(out[i][j], a[i], b[0], b[1]);
                    multiply(out[i][j + 1], a[i], b[2], b[3]);
                }
            }
        }
    }

    // The warp's rows of O take the place of its queries, so that whole rows go to memory.
    half* own_rows = tiles + warp * WSQ * D;
    #pragma unroll
    for (int i = 0; i < FRAGS_Q; ++i) {
        #pragma unroll
        for (int half_of = 0; half_of < 2; ++half_of) {
            float all = sum[i][half_of];  // of this lane's keys: four lanes share a row
            all += __shfl_xor_sync(ALL, all, 1);
            all += __shfl_xor_sync(ALL, all, 2);
            const int row = i * 16 + lane / 4 + half_of * 8;
            #pragma unroll
            for (int j = 0; j < FRAGS_D; ++j) {
                *reinterpret_cast<unsigned*>(own_rows + place(row, j) + lane % 4 * 2) =
                    pack(out[i][j][half_of * 2] / all, out[i][j][half_of * 2 + 1] / all);
            }
            if (lane % 4 == 0 && own + row < N) {
                L[blockIdx.y * N + own + row] = (largest[i][half_of] + log2f(all)) * LN2;
            }
        }
    }
    __syncwarp();
    #pragma unroll
    for (int i = lane; i < WSQ * CHUNKS; i += 32) {
        const int row = i / CHUNKS;
        const int chunk = i % CHUNKS;
        if (own + row < N) {
            const uint4 eight = *reinterpret_cast<const uint4*>(own_rows + place(row, chunk));
            *reinterpret_cast<uint4*>(O + head + (own + row) * D + chunk * CHUNK) = eight;
        }
    }
}
