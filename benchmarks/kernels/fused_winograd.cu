// fused_winograd.cu: F(4x4,5x5) or F(6x6,3x3) of few channels, all three transforms and the products in one kernel.
// Idea:    tiles have 8 x 8 pixels either way. Four kernels write and read 64 numbers for each tile and channel, and for
//          each tile and filter: for few channels that takes longer than the products. Here a block transforms 16 tiles
//          of all channels into shared memory, where they stay; columns by one thread, rows by another, four channels
//          at a time. Then come the filters, 32 at a time: 64 sums a thread, all that its registers hold, while the
//          filters of the next six channels are on their way, for the L2 cache is far. Sums go once through shared
//          memory, for a position's belong to one thread, and a tile's to another. Filters are transformed before,
//          into the order in which blocks read them.
// From:    lab09_winograd/07_fused_f2.cu, lab09_winograd/03_batched_gemm.cu
// Limits:  CHANNELS channels, a multiple of 32 filters, stride 1. Each block reads all filters: L2 decides for more.
// Target:  sm_90a
// Entry:   transform_filters(const float w[F,C,FILTER,FILTER] in, float U[F/TF,C/TU,64,TU,TF] out, int F, int C)
// Entry:   convolve(const float x[BATCH,C,H,W] in, const float U[F/TF,C/TU,64,TU,TF] in, float y[BATCH,F,OH,OW] out,
//                   int BATCH, int C, int H, int W, int F, int PAD)
// Sizes:   OH = H + 2*PAD - FILTER + 1, OW = W + 2*PAD - FILTER + 1, TY = cdiv(OH, TILE), TX = cdiv(OW, TILE)
// Needs:   C == CHANNELS, F % TF == 0, H + 2*PAD >= FILTER, W + 2*PAD >= FILTER, BATCH * TY * TX <= 1073741824
// Scratch: U
// Launch:  transform_filters block=(TF, TC) grid=(F / TF, C / TC)
// Launch:  convolve block=(THREADS) grid=(cdiv(BATCH * TY * TX, TP)) shared=SHARED

constexpr int TILE = 4;              // results of a tile along each axis: 4 for filters of 5 x 5, 6 for 3 x 3
constexpr int CHANNELS = 32;
constexpr int SIDE = 8;              // pixels of a tile along each axis
constexpr int FILTER = SIDE - TILE + 1;
constexpr int TP = 16;               // tiles of a block
constexpr int TF = 32;               // filters that it works on together
constexpr int TC = 4;                // channels that are transformed together,
constexpr int PIECES = CHANNELS / TC;
constexpr int TU = 2;                // and so many multiplied
constexpr int TURNS = CHANNELS / TU;
constexpr int STAGES = 4;            // of filters
constexpr int THREADS = 512;
constexpr int WPT = 8;               // tiles, and filters, of a thread's sums
constexpr int PITCH_V = CHANNELS * TP + 8;  // floats of a position's values
constexpr int PITCH_U = TU * TF + 16;       // of its filters: two positions' begin in different halves of the banks
constexpr int PITCH_T = 72;          // of a tile's transformed columns
constexpr int PITCH_M = TF / 2 + 4;  // of a tile's sums, for half of the filters
constexpr int FLOATS_V = SIDE * SIDE * PITCH_V;
constexpr int FLOATS_T = TC * TP * PITCH_T;
constexpr int FLOATS_U = SIDE * SIDE * PITCH_U;
constexpr int STORED_U = SIDE * SIDE * TU * TF;  // in memory, without what lies between
constexpr int FLOATS_M = SIDE * SIDE * TP * PITCH_M;
constexpr int SHARED = 4 * (FLOATS_V + FLOATS_M);  // columns, filters and sums have one place after the other

static_assert(TILE == 4 || TILE == 6, "the points are those of tiles of 8 x 8 pixels");
static_assert(THREADS == SIDE * SIDE * (TP / WPT) * (TF / WPT), "the threads' sums cover the block's exactly");
static_assert(THREADS == TC * TP * SIDE && CHANNELS % TC == 0, "a column and a row for each thread");
static_assert(2 * FLOATS_U + 2 * FLOATS_T <= FLOATS_M && STAGES * FLOATS_U <= FLOATS_M, "room for each");
static_assert(STAGES == 4 && TC % TU == 0 && STORED_U % (4 * THREADS) == 0, "what is sent when, and by whom");
static_assert(SHARED <= 227 * 1024, "a block of an H100 has 227 KB of shared memory");

// Numbers at the points 0, 1, -1, 2, -2, 1/2, -1/2 and infinity, with the factors that the exact matrices have.
__device__ void transform_filter(float (&to)[SIDE], const float (&of)[FILTER])
{
    constexpr float POINTS[7] = {0.0f, 1.0f, -1.0f, 2.0f, -2.0f, 0.5f, -0.5f};
    constexpr float FACTORS[7] = {1.0f, -2.0f / 9.0f, -2.0f / 9.0f, 1.0f / 90.0f, 1.0f / 90.0f, 32.0f / 45.0f,
                                  32.0f / 45.0f};
    #pragma unroll
    for (int i = 0; i < SIDE - 1; ++i) {
        float value = of[FILTER - 1];
        #pragma unroll
        for (int k = FILTER - 2; k >= 0; --k) value = fmaf(POINTS[i], value, of[k]);
        to[i] = FACTORS[i] * value;
    }
    to[SIDE - 1] = of[FILTER - 1];
}

// B^T d; two points that differ in their sign share what is even and what is odd.
__device__ void transform_input(float (&to)[SIDE], const float (&of)[SIDE])
{
    const float even_ones = fmaf(-4.25f, of[4], of[2] + of[6]);
    const float odd_ones = fmaf(-4.25f, of[3], of[1] + of[5]);
    const float even_twos = fmaf(-1.25f, of[4], fmaf(0.25f, of[2], of[6]));
    const float odd_twos = fmaf(2.0f, of[5], fmaf(-2.5f, of[3], 0.5f * of[1]));
    const float even_halves = fmaf(-5.0f, of[4], fmaf(4.0f, of[2], of[6]));
    const float odd_halves = fmaf(0.5f, of[5], fmaf(-2.5f, of[3], 2.0f * of[1]));
    to[0] = fmaf(5.25f, of[4] - of[2], of[0] - of[6]);
    to[1] = even_ones + odd_ones;
    to[2] = even_ones - odd_ones;
    to[3] = even_twos + odd_twos;
    to[4] = even_twos - odd_twos;
    to[5] = even_halves + odd_halves;
    to[6] = even_halves - odd_halves;
    to[7] = fmaf(5.25f, of[5] - of[3], of[1] - of[7]);
}

// A^T m: powers of the points.
__device__ void transform_output(float (&to)[TILE], const float (&of)[SIDE])
{
    #pragma unroll
    for (int k = 0; k < TILE; ++k) {
        const float sign = k % 2 ? -1.0f : 1.0f;
        const float power = static_cast<float>(1 << k);
        float sum = fmaf(sign, of[2], of[1]);
        sum = fmaf(power, fmaf(sign, of[4], of[3]), sum);
        sum = fmaf(1.0f / power, fmaf(sign, of[6], of[5]), sum);
        to[k] = k == 0 ? sum + of[0] : k == TILE - 1 ? sum - of[SIDE - 1] : sum;
    }
}

extern "C" __global__ void transform_filters(const float* w, float* U, int F, int C)
{
    const int f = blockIdx.x * TF + threadIdx.x;
    const int c = blockIdx.y * TC + threadIdx.y;
    const float* const from = w + (static_cast<long long>(f) * C + c) * FILTER * FILTER;
    float middle[SIDE][FILTER];
    #pragma unroll
    for (int s = 0; s < FILTER; ++s) {
        float column[FILTER];
        float numbers[SIDE];
        #pragma unroll
        for (int r = 0; r < FILTER; ++r) column[r] = from[r * FILTER + s];
        transform_filter(numbers, column);
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) middle[i][s] = numbers[i];
    }
    float* const to = U + (static_cast<long long>(blockIdx.x) * (C / TU) + c / TU) * STORED_U + c % TU * TF + threadIdx.x;
    #pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        float numbers[SIDE];
        transform_filter(numbers, middle[i]);
        #pragma unroll
        for (int j = 0; j < SIDE; ++j) to[(i * SIDE + j) * TU * TF] = numbers[j];
    }
}

// A tile's place among all.
struct Tile {
    int image, row, col;  // of its first result
};

__device__ Tile tile_at(int p, int TY, int TX)
{
    return {p / (TY * TX), p / TX % TY * TILE, p % TX * TILE};
}

// Adds TU channels' products of eight tiles and eight filters: four, and four further on.
__device__ void multiply(float (&sums)[WPT][WPT], const float* a, const float* b)
{
    #pragma unroll
    for (int c = 0; c < TU; ++c) {
        float left[WPT];
        float right[WPT];
        *reinterpret_cast<float4*>(left) = *reinterpret_cast<const float4*>(a + c * TP);
        *reinterpret_cast<float4*>(left + 4) = *reinterpret_cast<const float4*>(a + c * TP + TP / 2);
        *reinterpret_cast<float4*>(right) = *reinterpret_cast<const float4*>(b + c * TF);
        *reinterpret_cast<float4*>(right + 4) = *reinterpret_cast<const float4*>(b + c * TF + TF / 2);
        #pragma unroll
        for (int t = 0; t < WPT; ++t) {
            #pragma unroll
            for (int f = 0; f < WPT; ++f) sums[t][f] = fmaf(left[t], right[f], sums[t][f]);
        }
    }
}

// A tile's results from its 64 sums; `rows` and `cols` of them lie in an image of rows of OW.
__device__ void store_results(float* to, const float* of, int rows, int cols, int OW)
{
    float middle[TILE][SIDE];
    #pragma unroll
    for (int j = 0; j < SIDE; ++j) {
        float given[SIDE];
        float numbers[TILE];
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) given[i] = of[(i * SIDE + j) * TP * PITCH_M];
        transform_output(numbers, given);
        #pragma unroll
        for (int i = 0; i < TILE; ++i) middle[i][j] = numbers[i];
    }
    #pragma unroll
    for (int i = 0; i < TILE; ++i) {
        float numbers[TILE];
        transform_output(numbers, middle[i]);
        if (i >= rows) continue;
        if (TILE == 4 && OW % 4 == 0) {  // tiles' rows begin at multiples of four floats
            *reinterpret_cast<float4*>(to + i * OW) = make_float4(numbers[0], numbers[1], numbers[2], numbers[3]);
            continue;
        }
        #pragma unroll
        for (int j = 0; j < TILE; j += 2) {
            if (OW % 2 == 0 && j < cols) {
                *reinterpret_cast<float2*>(to + i * OW + j) = make_float2(numbers[j], numbers[j + 1]);
            } else if (j < cols) {
                to[i * OW + j] = numbers[j];
                if (j + 1 < cols) to[i * OW + j + 1] = numbers[j + 1];
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
convolve(const float* __restrict__ x, const float* __restrict__ U, float* __restrict__ y,
         int BATCH, int C, int H, int W, int F, int PAD)
{
    extern __shared__ __align__(16) float shared[];
    float* const V = shared;                        // [position][channel][tile]
    float* const filters = V + FLOATS_V;            // [STAGES][position][channel][filter]
    float* const columns = filters + 2 * FLOATS_U;  // [2][channel][tile][row][column], columns transformed
    float* const M = filters;                       // [position][tile][filter]
    const int OH = H + 2 * PAD - FILTER + 1;
    const int OW = W + 2 * PAD - FILTER + 1;
    const int TY = (OH + TILE - 1) / TILE;
    const int TX = (OW + TILE - 1) / TILE;
    const int P = BATCH * TY * TX;
    const int first = blockIdx.x * TP;
    // Sends two channels' filters to a stage, 16 bytes a thread and turn; the same filters' until they are all sent.
    const float* outgoing = U + threadIdx.x * 4;
    const unsigned incoming = static_cast<unsigned>(__cvta_generic_to_shared(
        filters + threadIdx.x * 4 / (TU * TF) * PITCH_U + threadIdx.x * 4 % (TU * TF)));
    const auto send = [&](int turn) {
        if (turn < TURNS) {
            #pragma unroll
            for (int i = 0; i < STORED_U / (4 * THREADS); ++i) {
                const int further = turn % STAGES * FLOATS_U + i * (4 * THREADS / (TU * TF)) * PITCH_U;
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                             :: "r"(incoming + 4 * further), "l"(outgoing + i * 4 * THREADS) : "memory");
            }
            outgoing += STORED_U;
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    send(0);
    send(1);

    // A thread transforms a column of a tile of one of four channels,
    const int column = threadIdx.x % SIDE;
    const int loaded = threadIdx.x / SIDE % TP;
    const Tile source = tile_at(first + loaded, TY, TX);
    const int col = source.col - PAD + column;
    const float* from = x + ((static_cast<long long>(source.image) * C + threadIdx.x / (SIDE * TP)) * H
                             + source.row - PAD) * W + col;
    unsigned inside = 0;  // a bit for each of its rows
    #pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        const int row = source.row - PAD + i;
        if (first + loaded < P && 0 <= col && col < W && 0 <= row && row < H) inside |= 1u << i;
    }
    // and then a row: a warp has one row of 16 tiles and two channels.
    const int row = threadIdx.x / 32 % SIDE;
    const int channel = threadIdx.x / (32 * SIDE) * 2 + threadIdx.x % 32 / TP;
    float pixels[PIECES][SIDE];  // all set out before the first is used: no sum needs these registers yet
    #pragma unroll
    for (int piece = 0; piece < PIECES; ++piece) {
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) pixels[piece][i] = inside >> i & 1 ? from[i * W] : 0.0f;
        from += static_cast<long long>(TC) * H * W;
    }
    #pragma unroll
    for (int piece = 0; piece < PIECES; ++piece) {
        float numbers[SIDE];
        transform_input(numbers, pixels[piece]);
        float* const there = columns + piece % 2 * FLOATS_T;
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) there[threadIdx.x / SIDE * PITCH_T + i * SIDE + column] = numbers[i];
        __syncthreads();  // those of the piece before last have been read by all
        float given[SIDE];
        const float* const at = there + (channel * TP + threadIdx.x % TP) * PITCH_T + row * SIDE;
        *reinterpret_cast<float4*>(given) = *reinterpret_cast<const float4*>(at);
        *reinterpret_cast<float4*>(given + 4) = *reinterpret_cast<const float4*>(at + 4);
        transform_input(numbers, given);
        float* const to = V + row * SIDE * PITCH_V + (piece * TC + channel) * TP + threadIdx.x % TP;
        #pragma unroll
        for (int j = 0; j < SIDE; ++j) to[j * PITCH_V] = numbers[j];
    }

    const int position = threadIdx.x / 8;
    const int my_tile = threadIdx.x % 2 * 4;  // and the four that begin eight behind
    const int my_filter = threadIdx.x / 2 % 4 * 4;  // and sixteen behind
    // Results are a thread's of one tile and filter, of sixteen filters at a time: half of the threads have some.
    const int stored = threadIdx.x / 32 % 2 * 8 + threadIdx.x % 8;
    const int its_filter = threadIdx.x / 64 * 4 + threadIdx.x % 32 / 8;
    const Tile target = tile_at(first + stored, TY, TX);
    const float* const a = V + position * PITCH_V + my_tile;
    const float* const b = filters + position * PITCH_U + my_filter;
    __syncthreads();  // columns have been read
    send(2);
    for (int f0 = 0; f0 < F; f0 += TF) {
        float sums[WPT][WPT] = {};
        for (int turn0 = 0; turn0 < TURNS; turn0 += STAGES) {
            #pragma unroll
            for (int stage = 0; stage < STAGES; ++stage) {
                if (TURNS % STAGES != 0 && turn0 + stage >= TURNS) break;
                asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
                __syncthreads();  // filters are there, and those of the turn before have been used by all
                send(turn0 + stage + STAGES - 1);
                multiply(sums, a + (turn0 + stage) * TU * TP, b + stage * FLOATS_U);
            }
        }
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
            __syncthreads();  // what lay where the sums go has been read
            #pragma unroll
            for (int t = 0; t < WPT; ++t) {
                float* const to = M + (position * TP + t / 4 * 8 + my_tile + t % 4) * PITCH_M + my_filter;
                *reinterpret_cast<float4*>(to) = make_float4(sums[t][4 * half], sums[t][4 * half + 1],
                                                             sums[t][4 * half + 2], sums[t][4 * half + 3]);
            }
            __syncthreads();
            if (threadIdx.x < TP * TF / 2 && first + stored < P) {
                const int f = f0 + half * (TF / 2) + its_filter;
                store_results(y + ((static_cast<long long>(target.image) * F + f) * OH + target.row) * OW + target.col,
                              M + stored * PITCH_M + its_filter, OH - target.row, OW - target.col, OW);
            }
        }
        __syncthreads();
        for (int turn = 0; turn < STAGES - 1 && f0 + TF < F; ++turn) send(turn);
    }
}
