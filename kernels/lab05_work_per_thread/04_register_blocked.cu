// 04_register_blocked.cu: C = A * B with WPTM x WPTN results per thread.
// Idea:    what tiling does between global and shared memory, again between shared memory and registers. For
//          each step of k a thread reads WPTM elements of tileA and WPTN of tileB, and their outer product gives
//          WPTM * WPTN FMAs: the loads grow as the edge of a thread's block, the work as its area.
// From:    02_wide_loads.cu
// Limits:  16 narrow loads from shared memory for 64 FMAs.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(THREADS) grid=(cdiv(N, TSN), cdiv(M, TSM))

constexpr int TSM = 128;          // a block computes TSM x TSN elements of C
constexpr int TSN = 128;
constexpr int TSK = 16;           // steps of k in one tile
constexpr int WPTM = 8;           // work per thread: WPTM x WPTN elements of C
constexpr int WPTN = 8;
constexpr int RTSM = TSM / WPTM;  // reduced tile sizes: threads along the rows and columns of a block
constexpr int RTSN = TSN / WPTN;
constexpr int THREADS = RTSM * RTSN;
constexpr int BLOCKS = 2;         // blocks that share a multiprocessor: each thread has 128 of its 65536 registers

static_assert(TSM % WPTM == 0 && TSN % WPTN == 0, "the threads' elements cover the tile exactly");
static_assert(TSK % 4 == 0 && TSN % 4 == 0, "the tiles are loaded four floats at a time");
static_assert(TSK <= RTSN, "the 32 / RTSN rows of tileA that a warp reads at a time lie in different banks");
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "a block has whole warps and at most 1024 threads");

// The four elements from (row, col) on; those outside the matrix are zero.
__device__ float4 load_quad(const float* matrix, int rows, int cols, int row, int col)
{
    float4 quad = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (row < rows && col < cols) {
        const float* from = matrix + row * cols + col;
        if (cols % 4 == 0) {
            quad = *reinterpret_cast<const float4*>(from);
        } else {
            quad.x = from[0];
            if (col + 1 < cols) quad.y = from[1];
            if (col + 2 < cols) quad.z = from[2];
            if (col + 3 < cols) quad.w = from[3];
        }
    }
    return quad;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
matmul(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    __shared__ __align__(16) float tileA[TSM][TSK];
    __shared__ __align__(16) float tileB[TSK][TSN];
    const int thread = threadIdx.x;
    const int x = thread % RTSN;
    const int y = thread / RTSN;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    float sum[WPTM][WPTN] = {};

    for (int k0 = 0; k0 < K; k0 += TSK) {
        for (int i = thread; i < TSM * TSK / 4; i += THREADS) {
            const int m = i / (TSK / 4);
            const int k = i % (TSK / 4) * 4;
            *reinterpret_cast<float4*>(&tileA[m][k]) = load_quad(A, M, K, row0 + m, k0 + k);
        }
        for (int i = thread; i < TSK * TSN / 4; i += THREADS) {
            const int k = i / (TSN / 4);
            const int n = i % (TSN / 4) * 4;
            *reinterpret_cast<float4*>(&tileB[k][n]) = load_quad(B, K, N, k0 + k, col0 + n);
        }
        __syncthreads();  // the tiles are complete
        // BEGIN SOLUTION: per step of k, elements into registers, then their outer product (about 16 lines)
        // END SOLUTION
        __syncthreads();  // nobody reads them any more
    }

    for (int i = 0; i < WPTM; ++i) {
        for (int j = 0; j < WPTN; ++j) {
            const int row = row0 + y + i * RTSM;
            const int col = col0 + x + j * RTSN;
            if (row < M && col < N) {
                C[row * N + col] = sum[i][j];
            }
        }
    }
}
