// 04_conv_backward_data.cu: the gradient of a convolution's images.
// Idea:    a pixel takes part in the results of all windows that contain it, so its slope is a sum over them: filter f
//          at (r, s) met pixel (h, v) in the window whose corner is (h + PAD - r, v + PAD - s), if that is a multiple
//          of the stride. One could let every result add its share to the pixels of its window; this way round every
//          pixel collects its own, and no two threads write to one place.
//          Collecting is a convolution again: an implicit GEMM, C x (F * R * S) by (F * R * S) x places. A thread notes
//          as bits which rows and columns of filters meet a window for its pixel; a first kernel turns the filters and
//          fills them up with zeros to whole tiles, which are then loaded by float4s without a question.
// From:    lab08_convolution/07_implicit_gemm.cu
// Limits:  with a stride of 2 three of four products are with zeros.
// Entry:   turn(const float w[F,C,R,S] in, float turned[KP,CP] out, int C, int F, int R, int S)
// Entry:   conv_backward_data(const float dy[BATCH,F,OH,OW] in, const float turned[KP,CP] in,
//                             float dx[BATCH,C,H,W] out, int BATCH, int C, int H, int W, int F, int R, int S,
//                             int STRIDE, int PAD)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1,
//          CP = cdiv(C, TSM) * TSM, KP = cdiv(F * R * S, TSK) * TSK
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S, R <= 32, S <= 32
// Scratch: turned
// Launch:  turn block=(256) grid=(cdiv(KP * CP, 256))
// Launch:  conv_backward_data block=(THREADS) grid=(cdiv(BATCH * H * W, TSN), cdiv(C, TSM))

constexpr int TSM = 32;           // a block computes TSM channels at TSN pixels
constexpr int TSN = 128;
constexpr int TSK = 8;            // steps of k in one tile
constexpr int WSM = 32;           // a warp computes WSM x WSN of them
constexpr int WSN = 32;
constexpr int WPTM = 8;           // work per thread: WPTM x WPTN results
constexpr int WPTN = 4;
constexpr int RTSM = WSM / WPTM;  // reduced tile sizes: lanes along the rows and columns of a warp
constexpr int RTSN = WSN / WPTN;
constexpr int THREADS = (TSM / WSM) * (TSN / WSN) * 32;
constexpr int LOADS_W = (TSM * TSK / 4 + THREADS - 1) / THREADS;  // float4s of a tile of filters that one thread loads
constexpr int COLUMNS = TSN / THREADS;  // pixels for which one thread loads
constexpr int LOAD_AT = 1;        // the next tile sets out before this step of k, early,
constexpr int STORE_AT = TSK - 2;  // and goes to shared memory before this one, late

static_assert(TSM % WSM == 0 && TSN % WSN == 0, "the warps' tiles cover the block's exactly");
static_assert(RTSM * RTSN == 32 && RTSM % 2 == 0 && RTSN % 2 == 0, "a warp has 32 lanes, in patches of 2 x 2");
static_assert(RTSM * WPTM == WSM && RTSN * WPTN == WSN, "the lanes' elements cover the warp's tile exactly");
static_assert(WPTM % 4 == 0 && WPTN % 4 == 0, "a thread's elements come in groups of four");
static_assert(TSM % 4 == 0 && TSK % 2 == 0, "a row of filters is loaded by float4s");
static_assert(THREADS <= 1024 && COLUMNS * THREADS == TSN, "all threads load equally many columns");
static_assert(0 <= LOAD_AT && LOAD_AT <= STORE_AT && STORE_AT < TSK, "a tile is loaded, stored, then multiplied");

// Reads four neighbouring floats of shared memory by one instruction.
__device__ void get_quad(float* to, const float* from)
{
    const float4 quad = *reinterpret_cast<const float4*>(from);
    to[0] = quad.x;
    to[1] = quad.y;
    to[2] = quad.z;
    to[3] = quad.w;
}

// Bits 0 to count - 1: whether the window that meets the pixel with its element number bit exists.
__device__ unsigned windows(int first, int count, int stride, int size)
{
    unsigned bits = 0;
    // BEGIN SOLUTION: its corner, first - i, is a multiple of the stride, 0 or more, with a result (about 5 lines)
    // END SOLUTION
    return bits;
}

// turned[(f, r, s)][c] = w[f, c, r, s], zero past F and C.
extern "C" __global__ void turn(const float* __restrict__ w, float* __restrict__ turned, int C, int F, int R, int S)
{
    const int CP = (C + TSM - 1) / TSM * TSM;
    const int KP = (F * R * S + TSK - 1) / TSK * TSK;
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= KP * CP) return;
    const int c = i % CP;
    const int f = i / CP / (R * S);
    turned[i] = c < C && f < F ? w[(f * C + c) * (R * S) + i / CP % (R * S)] : 0.0f;
}

extern "C" __global__ void __launch_bounds__(THREADS)
conv_backward_data(const float* __restrict__ dy, const float* __restrict__ turned, float* __restrict__ dx,
                   int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
{
    __shared__ __align__(16) float tileW[2][TSK][TSM];
    __shared__ __align__(16) float tileY[2][TSK][TSN];
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int N = BATCH * H * W;    // pixels
    const int K = F * R * S;        // and terms of their sums
    const int CP = (C + TSM - 1) / TSM * TSM;
    const int thread = threadIdx.x;
    const int warp = thread / 32;
    const int lane = thread % 32;
    // The thread's first column and row in the block's tile: patches of 2 x 2 lanes in warps side by side.
    const int tx = warp % (TSN / WSN) * WSN + (lane / 4 % (RTSN / 2) * 2 + lane % 2) * 4;
    const int ty = warp / (TSN / WSN) * WSM + (lane / 4 / (RTSN / 2) * 2 + lane / 2 % 2) * 4;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    float4 nextW[LOADS_W];       // the tile in flight
    float nextY[COLUMNS][TSK];
    float a[2][WPTM];            // elements for two steps of k: one being multiplied, one in flight
    float b[2][WPTN];
    float sum[WPTM][WPTN] = {};

    int corner[COLUMNS] = {};    // where in dy the result of the first window lies
    unsigned rows[COLUMNS] = {};  // bits: rows of filters that meet a window; none for columns past N
    unsigned cols[COLUMNS] = {};
    #pragma unroll
    for (int i = 0; i < COLUMNS; ++i) {
        const int place = col0 + thread + i * THREADS;
        if (place < N) {
            const int below = place / W % H + PAD;
            const int right = place % W + PAD;
            corner[i] = (place / (H * W) * F * OH + below / STRIDE) * OW + right / STRIDE;
            rows[i] = windows(below, R, STRIDE, OH);
            cols[i] = windows(right, S, STRIDE, OW);
        }
    }

    int k = 0;      // the next term: element (r, s) of some filter,
    int r = 0;
    int s = 0;
    int plane = 0;  // whose results begin at `plane`;
    int up = 0;     // r / STRIDE and s / STRIDE: results further up and left,
    int over = 0;
    int r_rest = 0;  // and what remains
    int s_rest = 0;
    const auto load = [&]() {  // from global memory to registers: starts the loads, waits for none
        #pragma unroll
        for (int i = 0; i < LOADS_W; ++i) {
            const int quad = thread + i * THREADS;
            nextW[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (k < K && quad < TSM * TSK / 4) {  // then the whole tile exists
                const int at = (k + quad / (TSM / 4)) * CP + row0 + quad % (TSM / 4) * 4;
                nextW[i] = *reinterpret_cast<const float4*>(turned + at);
            }
        }
        #pragma unroll
        for (int j = 0; j < TSK; ++j) {
            // BEGIN SOLUTION: the slope that term k meets, zero where no window does; then walk on (about 26 lines)
            // END SOLUTION
        }
    };
    const auto store = [&](int buffer) {  // from registers to shared memory,
        #pragma unroll
        for (int i = 0; i < LOADS_W; ++i) {
            const int quad = thread + i * THREADS;
            if (quad < TSM * TSK / 4) {
                *reinterpret_cast<float4*>(&tileW[buffer][quad / (TSM / 4)][quad % (TSM / 4) * 4]) = nextW[i];
            }
        }
        #pragma unroll
        for (int i = 0; i < COLUMNS; ++i) {
            #pragma unroll
            for (int j = 0; j < TSK; ++j) {
                tileY[buffer][j][thread + i * THREADS] = nextY[i][j];
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
            get_quad(&b[j % 2][i], &tileY[buffer][j][tx + i * RTSN]);
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
            const int c = row0 + ty + i / 4 * 4 * RTSM + i % 4;
            if (c < C && H * W % 4 == 0 && place < N) {  // four neighbours of one image
                float* to = dx + (place / (H * W) * C + c) * (H * W) + place % (H * W);
                *reinterpret_cast<float4*>(to) =
                    make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            } else if (c < C) {
                #pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const int p = place + e;
                    if (p < N) {
                        dx[(p / (H * W) * C + c) * (H * W) + p % (H * W)] = sum[i][j + e];
                    }
                }
            }
        }
    }
}
