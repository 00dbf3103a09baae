// 09_transposes.cu: C = op(A) * op(B), where each of the two may be stored transposed: NN, NT, TN and TT.
// Idea:    only the way into shared memory depends on how a matrix is stored. Where its rows run along k a tile
//          is turned on the way, as A was in 07_warp_tiled.cu; where they run along the tile it goes straight
//          in, as B did. One template with this choice as its parameter serves both matrices.
// From:    07_warp_tiled.cu
// Limits:  a choice per kernel, not per launch. A branch, not a step of the ladder: shapes depend on the choice.
// Entry:   matmul(const float A[ROWS_A,COLS_A] in, const float B[ROWS_B,COLS_B] in, float C[M,N] out,
//                 int M, int N, int K)
// Sizes:   ROWS_A = M + (K - M) * TRANSPOSE_A, COLS_A = K + (M - K) * TRANSPOSE_A,
//          ROWS_B = K + (N - K) * TRANSPOSE_B, COLS_B = N + (K - N) * TRANSPOSE_B
// Launch:  matmul block=(THREADS) grid=(cdiv(N, TSN), cdiv(M, TSM))

constexpr int TRANSPOSE_A = 0;    // 1: A is stored as [K,M]
constexpr int TRANSPOSE_B = 0;    // 1: B is stored as [N,K]
constexpr int TSM = 128;          // a block computes TSM x TSN elements of C
constexpr int TSN = 256;
constexpr int TSK = 8;            // steps of k in one tile
constexpr int WSM = 64;           // a warp computes WSM x WSN of them
constexpr int WSN = 64;
constexpr int WPTM = 16;          // work per thread: WPTM x WPTN elements of C
constexpr int WPTN = 8;
constexpr int RTSM = WSM / WPTM;  // reduced tile sizes: lanes along the rows and columns of a warp
constexpr int RTSN = WSN / WPTN;
constexpr int THREADS = (TSM / WSM) * (TSN / WSN) * 32;
constexpr int PAD = 4;            // moves the two groups of floats that a warp stores in a turned tile 16 banks apart
constexpr int LOADS_A = TSM * TSK / 4 / THREADS;  // float4s of a tile that one thread loads
constexpr int LOADS_B = TSK * TSN / 4 / THREADS;
constexpr int LOAD_AT = 2;        // the next tile sets out before this step of k, early,
constexpr int STORE_AT = TSK - 2;  // and goes to shared memory before this one, late: both found by measuring

static_assert(TRANSPOSE_A * (1 - TRANSPOSE_A) == 0 && TRANSPOSE_B * (1 - TRANSPOSE_B) == 0, "each is 0 or 1");
static_assert(TSM % WSM == 0 && TSN % WSN == 0, "the warps' tiles cover the block's exactly");
static_assert(RTSM * RTSN == 32 && RTSM % 2 == 0 && RTSN % 2 == 0, "a warp has 32 lanes, in patches of 2 x 2");
static_assert(RTSM * WPTM == WSM && RTSN * WPTN == WSN, "the lanes' elements cover the warp's tile exactly");
static_assert(WPTM % 4 == 0 && WPTN % 4 == 0, "a thread's elements come in groups of four");
static_assert(TSK % 8 == 0, "two lanes load 32 neighbouring bytes of a row along k: a whole sector");
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "a block has whole warps and at most 1024 threads");
static_assert(LOADS_A * THREADS * 4 == TSM * TSK, "all threads load equally much of tileA");
static_assert(LOADS_B * THREADS * 4 == TSK * TSN, "all threads load equally much of tileB");
static_assert(0 <= LOAD_AT && LOAD_AT <= STORE_AT && STORE_AT < TSK, "a tile is loaded, stored, then multiplied");

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

// The way of SIZE x TSK elements of a matrix into shared memory, one float4 at a time and thread. ALONG_K: the rows
// of the matrix run along k and are turned; otherwise they run along the tile. `at` counts along the tile.
template <bool ALONG_K, int SIZE>
struct Tile {
    static constexpr int LOADS = SIZE * TSK / 4 / THREADS;
    const float* matrix;
    int rows;
    int cols;
    int start;               // the tile's first row or column
    bool whole;              // the tile lies inside the matrix, all its float4s aligned
    const float* from[LOADS];
    float4 next[LOADS];      // the tile in flight

    __device__ static int at(int i)
    {
        const int index = threadIdx.x + i * THREADS;
        return ALONG_K ? index / 2 % SIZE : index % (SIZE / 4) * 4;
    }

    __device__ static int k_of(int i)
    {
        const int index = threadIdx.x + i * THREADS;
        return ALONG_K ? (index / 2 / SIZE * 2 + index % 2) * 4 : index / (SIZE / 4);
    }

    __device__ Tile(const float* matrix, int rows, int cols, int start)
        : matrix(matrix), rows(rows), cols(cols), start(start),
          whole(cols % 4 == 0 && start + SIZE <= (ALONG_K ? rows : cols))
    {
        #pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            from[i] = ALONG_K ? matrix + (start + at(i)) * cols + k_of(i) : matrix + k_of(i) * cols + start + at(i);
        }
    }

    // From global memory to registers: starts the loads, waits for none. Past K the tile is zero.
    __device__ void load(int k0)
    {
        // BEGIN SOLUTION: next[i], by from[i] in whole tiles, else by load_quad; both ways round (about 13 lines)
        // END SOLUTION
    }

    // From registers to shared memory.
    __device__ void store(float (&tile)[TSK][SIZE + PAD]) const
    {
        // BEGIN SOLUTION: next[i] into one row of the tile, or into four if it has to be turned (about 12 lines)
        // END SOLUTION
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
matmul(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    // A warp turns float4s of 16 rows, 4 steps of k apart: two groups of 16 neighbours, 4 rows of the tile apart.
    // Rows of SIZE + 4 floats put the second group 16 banks further on, and leave every float4 aligned.
    __shared__ __align__(16) float tileA[2][TSK][TSM + PAD];
    __shared__ __align__(16) float tileB[2][TSK][TSN + PAD];
    const int thread = threadIdx.x;
    // Lanes 0 to 3 form a patch of 2 x 2, and so on: neighbours in a row read the same float4 of tileA, neighbours
    // in a column the same of tileB, and shared memory serves such a pair at once, in half the wavefronts.
    int x = 0;  // the thread's first column and row in the block's tile
    int y = 0;
    const int warp = thread / 32;
    const int lane = thread % 32;
    x = warp % (TSN / WSN) * WSN + (lane / 4 % (RTSN / 2) * 2 + lane % 2) * 4;
    y = warp / (TSN / WSN) * WSM + (lane / 4 / (RTSN / 2) * 2 + lane / 2 % 2) * 4;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    float a[2][WPTM];       // elements for two steps of k: one being multiplied, one in flight
    float b[2][WPTN];
    float sum[WPTM][WPTN] = {};

    Tile<TRANSPOSE_A == 0, TSM> partA(A, TRANSPOSE_A ? K : M, TRANSPOSE_A ? M : K, row0);
    Tile<TRANSPOSE_B == 1, TSN> partB(B, TRANSPOSE_B ? N : K, TRANSPOSE_B ? K : N, col0);

    const auto fetch = [&](int buffer, int k) {  // from shared memory to registers
        #pragma unroll
        for (int i = 0; i < WPTM; i += 4) {
            get_quad(&a[k % 2][i], &tileA[buffer][k][y + i * RTSM]);
        }
        #pragma unroll
        for (int j = 0; j < WPTN; j += 4) {
            get_quad(&b[k % 2][j], &tileB[buffer][k][x + j * RTSN]);
        }
    };

    partA.load(0);
    partB.load(0);
    partA.store(tileA[0]);
    partB.store(tileB[0]);
    __syncthreads();
    fetch(0, 0);
    for (int k0 = 0; k0 < K; k0 += 2 * TSK) {
        #pragma unroll
        for (int buffer = 0; buffer < 2; ++buffer) {  // two tiles a turn, so that `buffer` is a constant
            #pragma unroll
            for (int k = 0; k < TSK; ++k) {
                if (k == LOAD_AT) {
                    partA.load(k0 + (buffer + 1) * TSK);
                    partB.load(k0 + (buffer + 1) * TSK);
                }
                if (k == STORE_AT) {
                    partA.store(tileA[1 - buffer]);
                    partB.store(tileB[1 - buffer]);
                }
                if (k + 1 < TSK) {
                    fetch(buffer, k + 1);
                } else {
                    __syncthreads();  // the next tile is complete, and nobody reads this one any more
                    fetch(1 - buffer, 0);
                }
                #pragma unroll
                for (int i = 0; i < WPTM; ++i) {
                    #pragma unroll
                    for (int turn = 0; turn < WPTN; ++turn) {
                        const int j = i % 2 == 0 ? turn : WPTN - 1 - turn;
                        sum[i][j] += a[k % 2][i] * b[k % 2][j];
                    }
                }
            }
        }
    }

    for (int i = 0; i < WPTM; ++i) {
        for (int j = 0; j < WPTN; j += 4) {
            const float4 quad = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            store_quad(C, M, N, row0 + y + i / 4 * 4 * RTSM + i % 4, col0 + x + j * RTSN, quad);
        }
    }
}
