// 01_half_storage.cu: C = A * B with A and B stored as half, multiplied and summed as float.
// Idea:    a half takes two bytes where a float takes four, so the same tiles ask for half of the bytes. They become
//          floats on their way into shared memory: once for each element, not once for each product.
// From:    lab05_work_per_thread/05_vectorized.cu
// Limits:  only the memory gains. The arithmetic, and what is read from shared memory, is what it was before.
// Entry:   matmul(const half A[M,K] in, const half B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(THREADS) grid=(cdiv(N, TSN), cdiv(M, TSM))

#include <cuda_fp16.h>

constexpr int TSM = 128;          // a block computes TSM x TSN elements of C
constexpr int TSN = 128;
constexpr int TSK = 16;           // steps of k in one tile: a row of it is 32 bytes of A, one sector
constexpr int WPTM = 8;           // work per thread: WPTM x WPTN elements of C
constexpr int WPTN = 8;
constexpr int RTSM = TSM / WPTM;  // reduced tile sizes: threads along the rows and columns of a block
constexpr int RTSN = TSN / WPTN;
constexpr int THREADS = RTSM * RTSN;
constexpr int BLOCKS = 2;         // blocks that share a multiprocessor: each thread has 128 of its 65536 registers

static_assert(RTSM * WPTM == TSM && RTSN * WPTN == TSN, "the threads' elements cover the tile exactly");
static_assert(WPTM % 4 == 0 && WPTN % 4 == 0, "a thread's elements come in groups of four");
static_assert(TSK % 16 == 0, "four lanes load 32 neighbouring bytes of a row of A: a whole sector");
static_assert(TSM % 32 == 0, "the columns of tileA change places in groups of 32");
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "a block has whole warps and at most 1024 threads");

// The four elements from (row, col) on, as floats; those outside the matrix are zero.
__device__ float4 load_quad(const half* matrix, int rows, int cols, int row, int col)
{
    float4 quad = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (row < rows && col < cols) {
        const half* from = matrix + row * cols + col;
        if (cols % 4 == 0) {
            // BEGIN SOLUTION: one load of eight bytes, a uint2; its two words are two half2s (about 5 lines)
            // END SOLUTION
        } else {
            quad.x = __half2float(from[0]);
            if (col + 1 < cols) quad.y = __half2float(from[1]);
            if (col + 2 < cols) quad.z = __half2float(from[2]);
            if (col + 3 < cols) quad.w = __half2float(from[3]);
        }
    }
    return quad;
}

// Writes the four elements from (row, col) on, except those outside the matrix.
__device__ void store_quad(float* matrix, int rows, int cols, int row, int col, float4 quad)
{
    if (row < rows && col < cols) {
        float* to = matrix + row * cols + col;
        if (cols % 4 == 0) {
            *reinterpret_cast<float4*>(to) = quad;
        } else {
            to[0] = quad.x;
            if (col + 1 < cols) to[1] = quad.y;
            if (col + 2 < cols) to[2] = quad.z;
            if (col + 3 < cols) to[3] = quad.w;
        }
    }
}

// Reads four neighbouring floats of shared memory by one instruction.
__device__ void get_quad(float* to, const float* from)
{
    const float4 quad = *reinterpret_cast<const float4*>(from);
    to[0] = quad.x;
    to[1] = quad.y;
    to[2] = quad.z;
    to[3] = quad.w;
}

// Where tileA keeps row m at step k. Four lanes hold four groups of four steps: each group has 8 banks of its own.
__device__ int place(int k, int m) { return m ^ k / 4 % 4 * 8; }

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
matmul(const half* __restrict__ A, const half* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    __shared__ __align__(16) float tileA[TSK][TSM];  // transposed
    __shared__ __align__(16) float tileB[TSK][TSN];
    const int thread = threadIdx.x;
    const int x = thread % RTSN * 4;
    const int y = thread / RTSN * 4;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    float sum[WPTM][WPTN] = {};

    for (int k0 = 0; k0 < K; k0 += TSK) {
        // BEGIN SOLUTION: load both tiles, A transposed: row m at step k goes to tileA[k][place(k, m)] (about 14 lines)
        // END SOLUTION
        __syncthreads();  // the tiles are complete
        #pragma unroll 8
        for (int k = 0; k < TSK; ++k) {
            float a[WPTM];
            float b[WPTN];
            for (int i = 0; i < WPTM; i += 4) {
                get_quad(&a[i], &tileA[k][place(k, y + i * RTSM)]);
            }
            for (int j = 0; j < WPTN; j += 4) {
                get_quad(&b[j], &tileB[k][x + j * RTSN]);
            }
            for (int i = 0; i < WPTM; ++i) {
                for (int j = 0; j < WPTN; ++j) {
                    sum[i][j] += a[i] * b[j];
                }
            }
        }
        __syncthreads();  // nobody reads them any more
    }

    for (int i = 0; i < WPTM; ++i) {
        for (int j = 0; j < WPTN; j += 4) {
            const float4 quad = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            store_quad(C, M, N, row0 + y + i / 4 * 4 * RTSM + i % 4, col0 + x + j * RTSN, quad);
        }
    }
}
