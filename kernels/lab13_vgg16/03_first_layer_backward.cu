// 03_first_layer_backward.cu: the gradients of the first layer's filters and bias, directly, in one pass over dy.
// Idea:    with three channels the product of 02 would read and write far more than it multiplies: dM alone is larger
//          than dy by 36 / 16, and three rows of V leave most of a block's tile empty. But 27 weights and the bias of a
//          filter are 28 sums, and a thread can hold those of two filters in registers. Lanes have different filters
//          and the same pixels: each pixel of x is read from shared memory once for all lanes and serves 3 x 3 weights
//          as it slides through the window. dy and y are read once; where y is 0, ReLU let nothing pass.
//          A block takes every PARTS-th piece of a row and leaves its sums; add_parts adds them up in one order.
// From:    02_winograd_backward_filter.cu
// Limits:  2 * 9 * CHANNELS registers: few channels. No gradient for x: nobody asks for that of the photographs.
// Entry:   first_layer(const float x[BATCH,CHANNELS,H,W] in, const float y[BATCH,F,H,W] in,
//                      const float dy[BATCH,F,H,W] in, float sums[PARTS,SUMS,F] out, int BATCH, int F, int H, int W)
// Entry:   add_parts(const float sums[PARTS,SUMS,F] in, float dw[F,CHANNELS,3,3] out, float db[F] out,
//                    int BATCH, int F, int H, int W)
// Sizes:   PIECES = BATCH*H*cdiv(W, PIXELS), PARTS = min(PIECES, PARTS_ALL)
// Needs:   F <= 65535
// Scratch: sums
// Launch:  first_layer block=(THREADS) grid=(PARTS, cdiv(F, TSF))
// Launch:  add_parts block=(LANES, ROWS) grid=(cdiv(F, LANES), SUMS)

constexpr int CHANNELS = 3;
constexpr int SUMS = CHANNELS * 9 + 1;  // of a filter: its weights, and the bias
constexpr int PIXELS = 32;              // of a piece of a row
constexpr int LANES = 32;
constexpr int WARPS = 4;                // each takes its share of a piece's pixels
constexpr int FPT = 2;                  // filters of a thread
constexpr int TSF = FPT * LANES;        // filters of a block
constexpr int THREADS = WARPS * LANES;
constexpr int BLOCKS = 3;               // blocks that share a multiprocessor, at least
constexpr int PARTS_ALL = 396;          // three blocks for each of an H200's 132 multiprocessors
constexpr int QUADS = PIXELS / 4;       // pixels are read by float4
constexpr int WIDTH = PIXELS + 4;       // floats of a row in shared memory: lanes' float4s, a row apart, fill all banks
constexpr int LOADS = TSF * QUADS / THREADS;               // float4s of dy that one thread loads
constexpr int LOADS_X = (CHANNELS * 3 * WIDTH + THREADS - 1) / THREADS;  // and pixels of x
constexpr int ROWS = 8;                 // threads that share the parts of one sum

static_assert(QUADS % WARPS == 0, "the warps share a piece's pixels equally");
static_assert(LOADS * THREADS == TSF * QUADS, "all threads load equally much");
static_assert(WIDTH % 32 == 4, "eight lanes' float4s, a row apart, lie in different banks");

// Four numbers of a row from `col` on; zero past its end.
__device__ float4 load_quad(const float* row, int col, int width)
{
    float4 quad = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (width % 4 == 0) {
        if (col < width) quad = *reinterpret_cast<const float4*>(row + col);
    } else {
        if (col < width) quad.x = row[col];
        if (col + 1 < width) quad.y = row[col + 1];
        if (col + 2 < width) quad.z = row[col + 2];
        if (col + 3 < width) quad.w = row[col + 3];
    }
    return quad;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
first_layer(const float* __restrict__ x, const float* __restrict__ y, const float* __restrict__ dy,
            float* __restrict__ sums, int BATCH, int F, int H, int W)
{
    __shared__ __align__(16) float gradients[TSF][WIDTH];      // dy where y is positive, else 0
    __shared__ __align__(16) float pixels[CHANNELS][3][WIDTH];  // those around the piece
    __shared__ float total[SUMS][TSF];
    const int thread = threadIdx.x;
    const int lane = thread % LANES;
    const int warp = thread / LANES;
    const int f0 = blockIdx.y * TSF;
    const int pieces_of_row = (W + PIXELS - 1) / PIXELS;
    const int pieces = BATCH * H * pieces_of_row;
    float4 next_dy[LOADS];  // the piece in flight
    float4 next_y[LOADS];
    float next_x[LOADS_X];
    float sum[FPT][SUMS] = {};

    const auto load = [&](int piece) {
        const int image = piece / pieces_of_row / H;
        const int row = piece / pieces_of_row % H;
        const int col0 = piece % pieces_of_row * PIXELS;
        #pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            const int f = f0 + (thread + i * THREADS) / QUADS;
            const int col = col0 + thread % QUADS * 4;
            const size_t first = ((static_cast<size_t>(image) * F + f) * H + row) * W;
            next_dy[i] = f < F ? load_quad(dy + first, col, W) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            next_y[i] = f < F ? load_quad(y + first, col, W) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        #pragma unroll
        for (int i = 0; i < LOADS_X; ++i) {
            const int index = thread + i * THREADS;
            const int c = index / (3 * WIDTH);
            const int r = row - 1 + index / WIDTH % 3;
            const int s = col0 - 1 + index % WIDTH;
            const bool inside = c < CHANNELS && r >= 0 && r < H && s >= 0 && s < W;
            next_x[i] = inside ? x[((static_cast<size_t>(image) * CHANNELS + c) * H + r) * W + s] : 0.0f;
        }
    };
    const auto store = [&]() {
        #pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            // BEGIN SOLUTION: next_dy[i] where next_y[i] is positive, else 0, to its place in gradients (about 7 lines)
            // END SOLUTION
        }
        #pragma unroll
        for (int i = 0; i < LOADS_X; ++i) {
            const int index = thread + i * THREADS;
            if (index < CHANNELS * 3 * WIDTH) (&pixels[0][0][0])[index] = next_x[i];
        }
    };

    load(blockIdx.x);
    for (int piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
        store();
        __syncthreads();  // the piece is complete
        if (piece + gridDim.x < pieces) load(piece + gridDim.x);
        #pragma unroll 1
        for (int quad = warp; quad < QUADS; quad += WARPS) {
            float g[FPT][4];  // gradients of the thread's filters for four results
            #pragma unroll
            for (int k = 0; k < FPT; ++k) {
                const float4 numbers = *reinterpret_cast<const float4*>(&gradients[k * LANES + lane][quad * 4]);
                g[k][0] = numbers.x, g[k][1] = numbers.y, g[k][2] = numbers.z, g[k][3] = numbers.w;
            }
            // pixels[c][r][quad * 4 + j + s] meets weight (r, s) for result j.
            // BEGIN SOLUTION: add up all weights' products, c by c and r by r, and the bias's sums (about 20 lines)
            // END SOLUTION
        }
        __syncthreads();  // nobody needs the piece any more
    }
    for (int turn = 0; turn < WARPS; ++turn) {  // the warps' sums, in their order
        if (warp == turn) {
            #pragma unroll
            for (int k = 0; k < FPT; ++k) {
                #pragma unroll
                for (int i = 0; i < SUMS; ++i) {
                    const float before = turn == 0 ? 0.0f : total[i][k * LANES + lane];
                    total[i][k * LANES + lane] = before + sum[k][i];
                }
            }
        }
        __syncthreads();
    }
    for (int i = thread; i < SUMS * TSF; i += THREADS) {
        const int f = f0 + i % TSF;
        if (f < F) sums[(static_cast<size_t>(blockIdx.x) * SUMS + i / TSF) * F + f] = total[i / TSF][i % TSF];
    }
}

extern "C" __global__ void __launch_bounds__(LANES * ROWS)
add_parts(const float* __restrict__ sums, float* __restrict__ dw, float* __restrict__ db,
          int BATCH, int F, int H, int W)
{
    __shared__ float shares[ROWS][LANES];
    const int parts = min(BATCH * H * ((W + PIXELS - 1) / PIXELS), PARTS_ALL);
    const int f = blockIdx.x * LANES + threadIdx.x;
    const int number = blockIdx.y;  // which of a filter's sums
    float share = 0.0f;
    // BEGIN SOLUTION: every ROWS-th part's sum of this filter, beginning with part threadIdx.y (about 5 lines)
    // END SOLUTION
    shares[threadIdx.y][threadIdx.x] = share;
    __syncthreads();
    if (threadIdx.y == 0 && f < F) {
        float whole = 0.0f;
        for (int row = 0; row < ROWS; ++row) whole += shares[row][threadIdx.x];
        if (number < SUMS - 1) {
            dw[static_cast<size_t>(f) * (SUMS - 1) + number] = whole;
        } else {
            db[f] = whole;
        }
    }
}
