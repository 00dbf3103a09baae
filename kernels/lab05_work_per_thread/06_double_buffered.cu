// 06_double_buffered.cu: C = A * B with two of everything: one tile in use, the next in flight.
// Idea:    a load takes hundreds of cycles, but it only starts one: the thread waits where it uses the result.
//          So the loads of the next tile start before this one is multiplied and wait in registers; a second
//          buffer in shared memory receives them, and one barrier per tile is enough. The same once more
//          between shared memory and registers: the elements for the next step of k are fetched early.
// From:    05_vectorized.cu
// Limits:  a warp's threads form a strip of 2 x 16: it reads many elements of tileB for few of tileA.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(THREADS) grid=(cdiv(N, TSN), cdiv(M, TSM))

constexpr int TSM = 128;          // a block computes TSM x TSN elements of C
constexpr int TSN = 128;
constexpr int TSK = 8;            // steps of k in one tile
constexpr int WPTM = 8;           // work per thread: WPTM x WPTN elements of C
constexpr int WPTN = 8;
constexpr int RTSM = TSM / WPTM;  // reduced tile sizes: threads along the rows and columns of a block
constexpr int RTSN = TSN / WPTN;
constexpr int THREADS = RTSM * RTSN;
constexpr int BLOCKS = 2;         // blocks that share a multiprocessor: each thread has 128 of its 65536 registers
constexpr int PAD = 4;            // moves the two groups of floats that a warp stores in tileA 16 banks apart
constexpr int LOADS_A = TSM * TSK / 4 / THREADS;  // float4s of a tile that one thread loads
constexpr int LOADS_B = TSK * TSN / 4 / THREADS;
constexpr int LOAD_AT = 2;        // the next tile sets out before this step of k, early,
constexpr int STORE_AT = TSK - 2;  // and goes to shared memory before this one, late: both found by measuring

static_assert(RTSM * WPTM == TSM && RTSN * WPTN == TSN, "the threads' elements cover the tile exactly");
static_assert(WPTM % 4 == 0 && WPTN % 4 == 0, "a thread's elements come in groups of four");
static_assert(TSK % 8 == 0, "two lanes load 32 neighbouring bytes of a row of A: a whole sector");
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

// Which float4 of a tile is a thread's i-th? Of A: two neighbours in a row, then the next row. Of B: row by row.
__device__ int row_of_A(int thread, int i) { return (thread + i * THREADS) / 2 % TSM; }
__device__ int k_of_A(int thread, int i) { return ((thread + i * THREADS) / 2 / TSM * 2 + thread % 2) * 4; }
__device__ int k_of_B(int thread, int i) { return (thread + i * THREADS) / (TSN / 4); }
__device__ int col_of_B(int thread, int i) { return (thread + i * THREADS) % (TSN / 4) * 4; }

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
matmul(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    // A warp stores float4s of 16 rows of A, 4 steps of k apart: two groups of 16 neighbours, 4 rows of tileA apart.
    // Rows of TSM + 4 floats put the second group 16 banks further on, and leave every float4 aligned.
    __shared__ __align__(16) float tileA[2][TSK][TSM + PAD];
    __shared__ __align__(16) float tileB[2][TSK][TSN];
    const int thread = threadIdx.x;
    const int x = thread % RTSN * 4;
    const int y = thread / RTSN * 4;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    float4 nextA[LOADS_A];  // the tile in flight
    float4 nextB[LOADS_B];
    float a[2][WPTM];       // elements for two steps of k: one being multiplied, one in flight
    float b[2][WPTN];
    float sum[WPTM][WPTN] = {};

    // Tiles that lie inside the matrices, all float4s aligned, are read through pointers that move along k.
    const bool whole = K % 4 == 0 && N % 4 == 0 && row0 + TSM <= M && col0 + TSN <= N;
    const float* fromA[LOADS_A];
    const float* fromB[LOADS_B];
    #pragma unroll
    for (int i = 0; i < LOADS_A; ++i) {
        fromA[i] = A + (row0 + row_of_A(thread, i)) * K + k_of_A(thread, i);
    }
    #pragma unroll
    for (int i = 0; i < LOADS_B; ++i) {
        fromB[i] = B + k_of_B(thread, i) * N + col0 + col_of_B(thread, i);
    }

    const auto load = [&](int k0) {  // from global memory to registers: starts the loads, waits for none
        // BEGIN SOLUTION: float4s of both tiles: by fromA and fromB in whole tiles, else by load_quad (about 21 lines)
        // END SOLUTION
    };
    const auto store = [&](int buffer) {  // from registers to shared memory, A transposed
        // BEGIN SOLUTION: nextA and nextB into tileA[buffer] and tileB[buffer] (about 12 lines)
        // END SOLUTION
    };
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

    load(0);
    store(0);
    __syncthreads();
    fetch(0, 0);
    for (int k0 = 0; k0 < K; k0 += 2 * TSK) {
        #pragma unroll
        for (int buffer = 0; buffer < 2; ++buffer) {  // two tiles a turn, so that `buffer` is a constant
            #pragma unroll
            for (int k = 0; k < TSK; ++k) {
                // BEGIN SOLUTION: start the next tile, store it, fetch for the next step of k (about 12 lines)
                // END SOLUTION
                #pragma unroll
                for (int i = 0; i < WPTM; ++i) {
                    #pragma unroll
                    for (int j = 0; j < WPTN; ++j) {
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
