// 04_fc_small_batch.cu: a fully connected layer for few images, forward.
// Idea:    with 32 images a layer of 25,088 x 4,096 weights is one long matrix and two short ones, and reading it once
//          takes as long as all the arithmetic: a block computes a tile of TSM = 32 images, a whole batch, by TSN
//          outputs, so that each weight is read once. But 32 tiles are few for a large chip, while each is a sum of
//          25,088 products. So the sum is cut into parts, one block for each; fc_finish adds their sums, in the order
//          of the parts, and the bias.
//          How a matrix is stored decides only how it comes into shared memory: one template will serve 05, too.
// From:    lab05_work_per_thread/09_transposes.cu
// Limits:  a batch of more than TSM images reads all weights again for every TSM of them.
// Entry:   fc_sums(const float x[BATCH,IN] in, const float w[IN,OUT] in, float sums[PARTS,BATCH,OUT] out,
//                  int BATCH, int IN, int OUT)
// Entry:   fc_finish(const float sums[PARTS,BATCH,OUT] in, const float bias[OUT] in, float y[BATCH,OUT] out,
//                    int BATCH, int IN, int OUT, int RELU)
// Sizes:   PARTS = max(1, min(cdiv(IN, SHORTEST), WAVE / cdiv(OUT, TSN)))
// Needs:   BATCH <= 65535
// Scratch: sums
// Launch:  fc_sums block=(THREADS) grid=(cdiv(OUT, TSN), cdiv(BATCH, TSM), PARTS)
// Launch:  fc_finish block=(FINISHERS) grid=(cdiv(OUT, FINISHERS), BATCH)

constexpr int TSM = 32;           // a block computes TSM x TSN elements of a product
constexpr int TSN = 128;
constexpr int TSK = 8;            // steps of k in one tile
constexpr int WSM = 32;           // a warp computes WSM x WSN of them
constexpr int WSN = 64;
constexpr int WPTM = 8;           // work per thread: WPTM x WPTN elements
constexpr int WPTN = 8;
constexpr int BLOCKS = 6;         // blocks that share a multiprocessor, at least
constexpr int SHORTEST = 128;     // products of a part's sums, at least
constexpr int WAVE = 792;         // blocks of all parts, at most: six for each of an H200's 132 multiprocessors
constexpr int FINISHERS = 128;    // threads that add parts: one for each sum
constexpr int RTSM = WSM / WPTM;  // reduced tile sizes: lanes along the rows and columns of a warp
constexpr int RTSN = WSN / WPTN;
constexpr int THREADS = (TSM / WSM) * (TSN / WSN) * 32;
constexpr int PAD = 4;            // moves the two groups of floats that a warp stores in a turned tile 16 banks apart
constexpr int LOAD_AT = 1;        // the next tile sets out before this step of k, early,
constexpr int STORE_AT = TSK - 3;  // and goes to shared memory before this one, late: as in lab 05

static_assert(TSM % WSM == 0 && TSN % WSN == 0, "the warps' tiles cover the block's exactly");
static_assert(RTSM * RTSN == 32 && RTSM % 2 == 0 && RTSN % 2 == 0, "a warp has 32 lanes, in patches of 2 x 2");
static_assert(RTSM * WPTM == WSM && RTSN * WPTN == WSN, "the lanes' elements cover the warp's tile exactly");
static_assert(WPTM % 4 == 0 && WPTN % 4 == 0, "a thread's elements come in groups of four");
static_assert(TSK % 8 == 0, "two lanes load 32 neighbouring bytes of a row along k: a whole sector");
static_assert(TSM * TSK / 4 % THREADS == 0 && TSN * TSK / 4 % THREADS == 0, "all threads load equally much");
static_assert(0 <= LOAD_AT && LOAD_AT <= STORE_AT && STORE_AT < TSK, "a tile is loaded, stored, then multiplied");

// The four elements from (row, col) on; those at or past the ends are zero. `cols`: the length of a row.
__device__ float4 load_quad(const float* matrix, int cols, int row, int col, int end_row, int end_col)
{
    float4 quad = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (row < end_row && col < end_col) {
        const float* from = matrix + static_cast<size_t>(row) * cols + col;
        if (cols % 4 == 0 && col + 3 < end_col) {
            quad = *reinterpret_cast<const float4*>(from);
        } else {
            quad.x = from[0];
            if (col + 1 < end_col) quad.y = from[1];
            if (col + 2 < end_col) quad.z = from[2];
            if (col + 3 < end_col) quad.w = from[3];
        }
    }
    return quad;
}

// Writes the four elements from (row, col) on, except those outside the matrix.
__device__ void store_quad(float* matrix, int rows, int cols, int row, int col, float4 quad)
{
    if (row < rows && col < cols) {
        float* to = matrix + static_cast<size_t>(row) * cols + col;
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
    int end;                 // of the part: k stops before it
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

    __device__ Tile(const float* matrix, int rows, int cols, int start, int first, int end)
        : matrix(matrix), rows(rows), cols(cols), start(start), end(end),
          whole(cols % 4 == 0 && start + SIZE <= (ALONG_K ? rows : cols))
    {
        #pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            from[i] = ALONG_K ? matrix + static_cast<size_t>(start + at(i)) * cols + first + k_of(i)
                              : matrix + static_cast<size_t>(first + k_of(i)) * cols + start + at(i);
        }
    }

    // From global memory to registers: starts the loads, waits for none. From `end` on the tile is zero.
    __device__ void load(int k0)
    {
        if (whole && k0 + TSK <= end) {
            #pragma unroll
            for (int i = 0; i < LOADS; ++i) {
                next[i] = *reinterpret_cast<const float4*>(from[i]);
                from[i] += ALONG_K ? TSK : static_cast<size_t>(TSK) * cols;
            }
        } else {
            #pragma unroll
            for (int i = 0; i < LOADS; ++i) {
                next[i] = ALONG_K ? load_quad(matrix, cols, start + at(i), k0 + k_of(i), rows, end)
                                  : load_quad(matrix, cols, k0 + k_of(i), start + at(i), end, cols);
            }
        }
    }

    // From registers to shared memory.
    __device__ void store(float (&tile)[TSK][SIZE + PAD]) const
    {
        #pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            float* to = &tile[k_of(i)][at(i)];
            if (ALONG_K) {
                to[0] = next[i].x;
                to[SIZE + PAD] = next[i].y;
                to[2 * (SIZE + PAD)] = next[i].z;
                to[3 * (SIZE + PAD)] = next[i].w;
            } else {
                *reinterpret_cast<float4*>(to) = next[i];
            }
        }
    }
};

// One tile of C[M,N] = op(A) op(B), the sum over k from `first` to `end`. ALONG_A: A is stored as [M,K], else [K,M];
// ALONG_B: B is stored as [N,K], else [K,N].
template <bool ALONG_A, bool ALONG_B>
__device__ void multiply(const float* A, const float* B, float* C, int M, int N, int K, int row0, int col0,
                         int first, int end)
{
    __shared__ __align__(16) float tileA[2][TSK][TSM + PAD];
    __shared__ __align__(16) float tileB[2][TSK][TSN + PAD];
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int x = warp % (TSN / WSN) * WSN + (lane / 4 % (RTSN / 2) * 2 + lane % 2) * 4;
    const int y = warp / (TSN / WSN) * WSM + (lane / 4 / (RTSN / 2) * 2 + lane / 2 % 2) * 4;
    float a[2][WPTM];       // elements for two steps of k: one being multiplied, one in flight
    float b[2][WPTN];
    float sum[WPTM][WPTN] = {};
    Tile<ALONG_A, TSM> partA(A, ALONG_A ? M : K, ALONG_A ? K : M, row0, first, end);
    Tile<ALONG_B, TSN> partB(B, ALONG_B ? N : K, ALONG_B ? K : N, col0, first, end);

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

    partA.load(first);
    partB.load(first);
    partA.store(tileA[0]);
    partB.store(tileB[0]);
    __syncthreads();
    fetch(0, 0);
    for (int k0 = first; k0 < end; k0 += 2 * TSK) {
        #pragma unroll
        for (int buffer = 0; buffer < 2; ++buffer) {  // two tiles a turn, so that `buffer` is a constant
            #pragma unroll
            for (int k = 0; k < TSK; ++k) {
                if (k == LOAD_AT && (buffer == 0 || k0 + 2 * TSK < end)) {
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
                        const int j = i % 2 == 0 ? turn : WPTN - 1 - turn;  // to and fro, as in lab 05
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

// How many steps of k a part has, of `parts`: an even number of tiles.
__device__ int length_of(int K, int parts) { return ((K + parts - 1) / parts + 2 * TSK - 1) / (2 * TSK) * (2 * TSK); }

// How many parts there are, as in the header: sums of K products for N columns.
__device__ int parts_of(int K, int N)
{
    return max(1, min((K + SHORTEST - 1) / SHORTEST, WAVE / ((N + TSN - 1) / TSN)));
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
fc_sums(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ sums, int BATCH, int IN, int OUT)
{
    const int length = length_of(IN, gridDim.z);  // of each part but the last
    sums += static_cast<size_t>(blockIdx.z) * BATCH * OUT;
    // BEGIN SOLUTION: where part blockIdx.z begins and ends; this block's tile of images by outputs (about 4 lines)
    // END SOLUTION
}

extern "C" __global__ void __launch_bounds__(FINISHERS)
fc_finish(const float* __restrict__ sums, const float* __restrict__ bias, float* __restrict__ y,
          int BATCH, int IN, int OUT, int RELU)
{
    const int out = blockIdx.x * FINISHERS + threadIdx.x;
    if (out >= OUT) return;
    const int parts = parts_of(IN, OUT);
    const size_t at = static_cast<size_t>(blockIdx.y) * OUT + out;
    // BEGIN SOLUTION: the sum over all parts and the bias; with RELU at least 0 (about 5 lines)
    // END SOLUTION
}
