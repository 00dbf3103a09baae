// narrow_gap.cu: rows of gradients lie 40 floats apart, which puts four lanes into the same banks.
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
constexpr int SUMS = CHANNELS * 9 + 1;
constexpr int PIXELS = 32;
constexpr int LANES = 32;
constexpr int WARPS = 4;
constexpr int FPT = 2;
constexpr int TSF = FPT * LANES;
constexpr int THREADS = WARPS * LANES;
constexpr int BLOCKS = 3;
constexpr int PARTS_ALL = 396;
constexpr int QUADS = PIXELS / 4;
constexpr int WIDTH = PIXELS + 8;
constexpr int LOADS = TSF * QUADS / THREADS;
constexpr int LOADS_X = (CHANNELS * 3 * WIDTH + THREADS - 1) / THREADS;
constexpr int ROWS = 8;

static_assert(QUADS % WARPS == 0, "the warps share a piece's pixels equally");
static_assert(LOADS * THREADS == TSF * QUADS, "all threads load equally much");

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
    __shared__ __align__(16) float gradients[TSF][WIDTH];
    __shared__ __align__(16) float pixels[CHANNELS][3][WIDTH];
    __shared__ float total[SUMS][TSF];
    const int thread = threadIdx.x;
    const int lane = thread % LANES;
    const int warp = thread / LANES;
    const int f0 = blockIdx.y * TSF;
    const int pieces_of_row = (W + PIXELS - 1) / PIXELS;
    const int pieces = BATCH * H * pieces_of_row;
    float4 next_dy[LOADS];
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
            float4 quad = next_dy[i];
            if (!(next_y[i].x > 0.0f)) quad.x = 0.0f;
            if (!(next_y[i].y > 0.0f)) quad.y = 0.0f;
            if (!(next_y[i].z > 0.0f)) quad.z = 0.0f;
            if (!(next_y[i].w > 0.0f)) quad.w = 0.0f;
            const int f = (thread + i * THREADS) / QUADS;
            *reinterpret_cast<float4*>(&gradients[f][thread % QUADS * 4]) = quad;
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
        __syncthreads();
        if (piece + gridDim.x < pieces) load(piece + gridDim.x);
        #pragma unroll 1
        for (int quad = warp; quad < QUADS; quad += WARPS) {
            float g[FPT][4];
            #pragma unroll
            for (int k = 0; k < FPT; ++k) {
                const float4 numbers = *reinterpret_cast<const float4*>(&gradients[k * LANES + lane][quad * 4]);  // expect: PERF
                g[k][0] = numbers.x, g[k][1] = numbers.y, g[k][2] = numbers.z, g[k][3] = numbers.w;
            }
            #pragma unroll
            for (int row = 0; row < CHANNELS * 3; ++row) {
                const float* from = &pixels[row / 3][row % 3][quad * 4];
                const float4 left = *reinterpret_cast<const float4*>(from);
                const float2 right = *reinterpret_cast<const float2*>(from + 4);
                const float six[6] = {left.x, left.y, left.z, left.w, right.x, right.y};
                #pragma unroll
                for (int k = 0; k < FPT; ++k) {
                    #pragma unroll
                    for (int s = 0; s < 3; ++s) {
                        #pragma unroll
                        for (int j = 0; j < 4; ++j) {
                            sum[k][row * 3 + s] += g[k][j] * six[j + s];
                        }
                    }
                }
            }
            #pragma unroll
            for (int k = 0; k < FPT; ++k) {
                sum[k][SUMS - 1] += (g[k][0] + g[k][1]) + (g[k][2] + g[k][3]);
            }
        }
        __syncthreads();
    }
    for (int turn = 0; turn < WARPS; ++turn) {
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
    const int number = blockIdx.y;
    float share = 0.0f;
    if (f < F) {
        for (int part = threadIdx.y; part < parts; part += ROWS) {
            share += sums[(static_cast<size_t>(part) * SUMS + number) * F + f];
        }
    }
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
