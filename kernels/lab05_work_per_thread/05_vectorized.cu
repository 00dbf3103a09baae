// 05_vectorized.cu: C = A * B with float4 all the way.
// Idea:    a thread's elements come in groups of four neighbours, so that four loads from shared memory become
//          one. The rows of A that a thread needs are neighbours only if tileA is stored transposed.
// From:    04_register_blocked.cu
// Limits:  all warps load, then all compute: the multipliers rest while a tile is on its way.
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
constexpr int PAD = 4;            // moves the two groups of floats that a warp stores in tileA 16 banks apart

static_assert(RTSM * WPTM == TSM && RTSN * WPTN == TSN, "the threads' elements cover the tile exactly");
static_assert(WPTM % 4 == 0 && WPTN % 4 == 0, "a thread's elements come in groups of four");
static_assert(TSK % 8 == 0, "two lanes load 32 neighbouring bytes of a row of A: a whole sector");
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

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
matmul(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    // A warp stores float4s of 16 rows of A, 4 steps of k apart: two groups of 16 neighbours, 4 rows of tileA apart.
    // Rows of TSM + 4 floats put the second group 16 banks further on, and leave every float4 aligned.
    __shared__ __align__(16) float tileA[TSK][TSM + PAD];
    __shared__ __align__(16) float tileB[TSK][TSN];
    const int thread = threadIdx.x;
    const int x = thread % RTSN * 4;
    const int y = thread / RTSN * 4;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    float sum[WPTM][WPTN] = {};

    for (int k0 = 0; k0 < K; k0 += TSK) {
        // BEGIN SOLUTION: load the tiles, A transposed; multiply as before, from groups of four (about 32 lines)
        // END SOLUTION
    }

    for (int i = 0; i < WPTM; ++i) {
        for (int j = 0; j < WPTN; j += 4) {
            const float4 quad = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            store_quad(C, M, N, row0 + y + i / 4 * 4 * RTSM + i % 4, col0 + x + j * RTSN, quad);
        }
    }
}
