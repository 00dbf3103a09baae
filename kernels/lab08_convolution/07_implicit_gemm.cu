// 07_implicit_gemm.cu: a convolution as a product of matrices, one of which is never stored.
// Idea:    the tiles of cols exist in shared memory only: whoever loads one takes its elements from the image, where
//          cols would have got them. All images form one product of F x (BATCH * OH * OW): a block's columns may
//          belong to several images. A thread always loads for the same columns of cols, so it finds the corner of
//          their windows once, and notes as bits which rows and columns of a window lie inside the image. Down a
//          column it walks through the window: s, then r, then c; all lanes are at the same step.
//          The product is lab 05's last one: tiles for block, warp and thread, the next tile in flight.
// From:    06_im2col_gemm.cu
// Limits:  loads of four bytes, where lab 05 has sixteen. FIXED_ constants tell the compiler what the sizes are.
// Entry:   conv(const float x[BATCH,C,H,W] in, const float w[F,C,R,S] in, float y[BATCH,F,OH,OW] out,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S, R <= 32, S <= 32, FIXED_R * (R - FIXED_R) == 0,
//          FIXED_S * (S - FIXED_S) == 0, FIXED_STRIDE * (STRIDE - FIXED_STRIDE) == 0,
//          (FIXED_PAD + 1) * (PAD - FIXED_PAD) == 0
// Launch:  conv block=(THREADS) grid=(cdiv(BATCH * OH * OW, TSN), cdiv(F, TSM))

constexpr int FIXED_R = 0;        // 0: as the argument says
constexpr int FIXED_S = 0;
constexpr int FIXED_STRIDE = 0;
constexpr int FIXED_PAD = -1;     // -1: as the argument says
constexpr int TSM = 64;           // a block computes TSM filters at TSN places
constexpr int TSN = 128;
constexpr int TSK = 8;            // steps of k in one tile
constexpr int WSM = 32;           // a warp computes WSM x WSN of them
constexpr int WSN = 64;
constexpr int WPTM = 8;           // work per thread: WPTM x WPTN results
constexpr int WPTN = 8;
constexpr int RTSM = WSM / WPTM;  // reduced tile sizes: lanes along the rows and columns of a warp
constexpr int RTSN = WSN / WPTN;
constexpr int THREADS = (TSM / WSM) * (TSN / WSN) * 32;
constexpr int PAD_M = 4;          // moves the two groups of floats that a warp stores in tileW 16 banks apart
constexpr int LOADS_W = (TSM * TSK / 4 + THREADS - 1) / THREADS;  // float4s of a tile of filters that one thread loads
constexpr int COLUMNS = TSN / THREADS;  // columns of cols that one thread loads
constexpr int LOAD_AT = 1;        // the next tile sets out before this step of k, early,
constexpr int STORE_AT = TSK - 2;  // and goes to shared memory before this one, late

static_assert(TSM % WSM == 0 && TSN % WSN == 0, "the warps' tiles cover the block's exactly");
static_assert(RTSM * RTSN == 32 && RTSM % 2 == 0 && RTSN % 2 == 0, "a warp has 32 lanes, in patches of 2 x 2");
static_assert(RTSM * WPTM == WSM && RTSN * WPTN == WSN, "the lanes' elements cover the warp's tile exactly");
static_assert(WPTM % 4 == 0 && WPTN % 4 == 0, "a thread's elements come in groups of four");
static_assert(TSK == 8, "two lanes load 32 neighbouring bytes of a filter: a whole sector");
static_assert(THREADS <= 1024 && COLUMNS * THREADS == TSN, "all threads load equally many columns");
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

// Reads four neighbouring floats of shared memory by one instruction.
__device__ void get_quad(float* to, const float* from)
{
    const float4 quad = *reinterpret_cast<const float4*>(from);
    to[0] = quad.x;
    to[1] = quad.y;
    to[2] = quad.z;
    to[3] = quad.w;
}

// Bits 0 to count - 1: whether first + bit lies in 0 to size - 1.
__device__ unsigned inside(int first, int count, int size)
{
    unsigned bits = 0;
    for (int i = 0; i < count; ++i) {
        bits |= (0 <= first + i && first + i < size ? 1u : 0u) << i;
    }
    return bits;
}

// Which float4 of a tile of filters is a thread's i-th: two neighbours of a filter, then the next filter.
__device__ int row_of_W(int thread, int i) { return (thread + i * THREADS) / 2; }
__device__ int k_of_W(int thread, int i) { return (thread + i * THREADS) % 2 * 4; }

extern "C" __global__ void __launch_bounds__(THREADS)
conv(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
     int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
{
    __shared__ __align__(16) float tileW[2][TSK][TSM + PAD_M];
    __shared__ __align__(16) float tileX[2][TSK][TSN];
    if (FIXED_R > 0) R = FIXED_R;
    if (FIXED_S > 0) S = FIXED_S;
    if (FIXED_STRIDE > 0) STRIDE = FIXED_STRIDE;
    if (FIXED_PAD >= 0) PAD = FIXED_PAD;
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int N = BATCH * OH * OW;  // columns of cols
    const int K = C * R * S;        // and rows
    const int thread = threadIdx.x;
    const int warp = thread / 32;
    const int lane = thread % 32;
    // The thread's first column and row in the block's tile: patches of 2 x 2 lanes in warps side by side.
    const int tx = warp % (TSN / WSN) * WSN + (lane / 4 % (RTSN / 2) * 2 + lane % 2) * 4;
    const int ty = warp / (TSN / WSN) * WSM + (lane / 4 / (RTSN / 2) * 2 + lane / 2 % 2) * 4;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    float4 nextW[LOADS_W];       // the tile in flight
    float nextX[COLUMNS][TSK];
    float a[2][WPTM];            // elements for two steps of k: one being multiplied, one in flight
    float b[2][WPTN];
    float sum[WPTM][WPTN] = {};

    int corner[COLUMNS] = {};    // where in x the window of a column begins
    unsigned rows[COLUMNS] = {};  // bits: rows of the window that lie inside the image; none for columns past N
    unsigned cols[COLUMNS] = {};
    // BEGIN SOLUTION: for each of the thread's columns, thread + i * THREADS of the tile (about 11 lines)
    // END SOLUTION

    int k = 0;       // the next row of cols to load: element (r, s) of a window in some channel,
    int r = 0;
    int s = 0;
    int offset = 0;  // that many floats behind the corner
    const auto load = [&]() {  // from global memory to registers: starts the loads, waits for none
        #pragma unroll
        for (int i = 0; i < LOADS_W; ++i) {
            if ((i + 1) * THREADS <= TSM * TSK / 4 || thread + i * THREADS < TSM * TSK / 4) {
                nextW[i] = load_quad(w, F, K, row0 + row_of_W(thread, i), k + k_of_W(thread, i));
            }
        }
        #pragma unroll
        for (int j = 0; j < TSK; ++j) {
            // BEGIN SOLUTION: row k of cols, zero outside the image and past K; then walk on (about 17 lines)
            // END SOLUTION
        }
    };
    const auto store = [&](int buffer) {  // from registers to shared memory, filters transposed
        #pragma unroll
        for (int i = 0; i < LOADS_W; ++i) {
            if ((i + 1) * THREADS <= TSM * TSK / 4 || thread + i * THREADS < TSM * TSK / 4) {
                float* to = &tileW[buffer][k_of_W(thread, i)][row_of_W(thread, i)];
                to[0] = nextW[i].x;
                to[TSM + PAD_M] = nextW[i].y;
                to[2 * (TSM + PAD_M)] = nextW[i].z;
                to[3 * (TSM + PAD_M)] = nextW[i].w;
            }
        }
        #pragma unroll
        for (int i = 0; i < COLUMNS; ++i) {
            #pragma unroll
            for (int j = 0; j < TSK; ++j) {
                tileX[buffer][j][thread + i * THREADS] = nextX[i][j];
            }
        }
    };
    const auto fetch = [&](int buffer, int j) {  // from shared memory to registers
        #pragma unroll
        for (int i = 0; i < WPTM; i += 4) {
            get_quad(&a[j % 2][i], &tileW[buffer][j][ty + i * RTSM]);
        }
        #pragma unroll
        for (int i = 0; i < WPTN; i += 4) {
            get_quad(&b[j % 2][i], &tileX[buffer][j][tx + i * RTSN]);
        }
    };

    load();
    store(0);
    __syncthreads();
    fetch(0, 0);
    for (int k0 = 0; k0 < K; k0 += 2 * TSK) {
        #pragma unroll
        for (int buffer = 0; buffer < 2; ++buffer) {  // two tiles a turn, so that `buffer` is a constant
            #pragma unroll
            for (int j = 0; j < TSK; ++j) {
                if (j == LOAD_AT) {
                    load();  // past K this is a tile of zeros
                }
                if (j == STORE_AT) {
                    store(1 - buffer);
                }
                if (j + 1 < TSK) {
                    fetch(buffer, j + 1);
                } else {
                    __syncthreads();  // the next tile is complete, and nobody reads this one any more
                    fetch(1 - buffer, 0);
                }
                #pragma unroll
                for (int i = 0; i < WPTM; ++i) {
                    #pragma unroll
                    for (int turn = 0; turn < WPTN; ++turn) {
                        const int l = i % 2 == 0 ? turn : WPTN - 1 - turn;
                        sum[i][l] += a[j % 2][i] * b[j % 2][l];
                    }
                }
            }
        }
    }

    #pragma unroll
    for (int j = 0; j < WPTN; j += 4) {
        const int place = col0 + tx + j * RTSN;
        #pragma unroll
        for (int i = 0; i < WPTM; ++i) {
            const int f = row0 + ty + i / 4 * 4 * RTSM + i % 4;
            if (f < F && OH * OW % 4 == 0 && place < N) {  // four neighbours of one image
                float* to = y + (place / (OH * OW) * F + f) * (OH * OW) + place % (OH * OW);
                *reinterpret_cast<float4*>(to) =
                    make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            } else if (f < F) {
                #pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const int p = place + e;
                    if (p < N) {
                        y[(p / (OH * OW) * F + f) * (OH * OW) + p % (OH * OW)] = sum[i][j + e];
                    }
                }
            }
        }
    }
}
