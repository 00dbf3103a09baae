// 05_fused_epilogue.cu: bias, ReLU and 2 x 2 max pooling in the output transform.
// Idea:    what a network does next to each result costs a pass over memory if a kernel of its own does it, and
//          nothing while the result is in a register. A tile of 4 x 4 holds four whole windows of 2 x 2: a quarter
//          of the results is written, and what was never pooled never leaves the chip.
//          A grid of tiles may begin CROP results outside the image: 14 x 14 with CROP = 1 is the middle of 16 x 16,
//          four tiles each way. Then windows lie across tiles. A thread computes the one column, row and corner of
//          its neighbours' tiles that its own windows need, mostly from the L2 cache.
// From:    04_output_transform.cu
// Limits:  with CROP = 1 a thread reads three and a half tiles of sums instead of one.
// Entry:   fused_epilogue(const float M[SIDE*SIDE,F,BATCH*TY*TX] in, const float bias[F] in,
//                         float y[BATCH,F,OH / POOL,OW / POOL] out, int BATCH, int F, int OH, int OW, int CROP)
// Sizes:   TY = cdiv(OH + 2*CROP, TILE), TX = cdiv(OW + 2*CROP, TILE)
// Needs:   F <= 65535, CROP <= 1, OH >= POOL, OW >= POOL
// Launch:  fused_epilogue block=(THREADS) grid=(cdiv(BATCH*TY*TX, THREADS), F)

constexpr int TILE = 4;         // results of a tile along each axis: 4, or 2 for F(2x2,3x3)
constexpr int SIDE = TILE + 2;  // sums of a tile along each axis
constexpr int POOL = 2;         // results of a window along each axis; 1: no pooling
constexpr int THREADS = 128;    // one for each tile

static_assert(TILE % POOL == 0, "a tile holds whole windows");

// y = A^T m for four sums: F(2,3).
__device__ void transform_output(float (&y)[2], const float (&m)[4])
{
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] - m[3];
}

// The same for six sums: F(4,3).
__device__ void transform_output(float (&y)[4], const float (&m)[6])
{
    const float even_ones = m[1] + m[2];  // the points 1 and -1: the same for even powers,
    const float odd_ones = m[1] - m[2];   // of opposite sign for odd ones
    const float even_twos = m[3] + m[4];  // the points 2 and -2
    const float odd_twos = m[3] - m[4];
    y[0] = m[0] + even_ones + even_twos;
    y[1] = fmaf(2.0f, odd_twos, odd_ones);
    y[2] = fmaf(4.0f, even_twos, even_ones);
    y[3] = fmaf(8.0f, odd_twos, odd_ones) + m[5];
}

// The tile's results: A^T M A.
__device__ void results_of(float (&y)[TILE + 1][TILE + 1], const float* from, size_t position)
{
    float middle[TILE][SIDE];
    #pragma unroll
    for (int j = 0; j < SIDE; ++j) {
        float column[SIDE];
        float results[TILE];
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) column[i] = from[(i * SIDE + j) * position];
        transform_output(results, column);
        #pragma unroll
        for (int i = 0; i < TILE; ++i) middle[i][j] = results[i];
    }
    #pragma unroll
    for (int i = 0; i < TILE; ++i) {
        float results[TILE];
        transform_output(results, middle[i]);
        #pragma unroll
        for (int j = 0; j < TILE; ++j) y[i][j] = results[j];
    }
}

// A tile's first row or column: the first row of A^T is ones, but for the last, so sums over lines of M come first.
// `along` leads to the next sum of a line, `across` to the next line.
__device__ void first_line_of(float (&line)[TILE], const float* from, size_t along, size_t across)
{
    float sums[SIDE];
    #pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        sums[i] = 0.0f;
        #pragma unroll
        for (int j = 0; j < SIDE - 1; ++j) sums[i] += from[i * across + j * along];
    }
    transform_output(line, sums);
}

// Writes a row of windows from column `col` on, except what lies outside a row of `width`.
__device__ void store_row(float* row, const float (&pooled)[TILE / POOL], int col, int width)
{
    constexpr int COUNT = TILE / POOL;
    if (COUNT == 4 && (col | width) % 4 == 0) {
        const float4 quad = make_float4(pooled[0], pooled[1 % COUNT], pooled[2 % COUNT], pooled[3 % COUNT]);
        if (col < width) *reinterpret_cast<float4*>(row + col) = quad;
    } else if (COUNT == 2 && (col | width) % 2 == 0) {
        if (col < width) *reinterpret_cast<float2*>(row + col) = make_float2(pooled[0], pooled[1 % COUNT]);
    } else {
        #pragma unroll
        for (int j = 0; j < COUNT; ++j) {
            if (col + j >= 0 && col + j < width) row[col + j] = pooled[j];
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
fused_epilogue(const float* __restrict__ M, const float* __restrict__ bias, float* __restrict__ y,
               int BATCH, int F, int OH, int OW, int CROP)
{
    const int TY = (OH + 2 * CROP + TILE - 1) / TILE;  // tiles of an image
    const int TX = (OW + 2 * CROP + TILE - 1) / TILE;
    const int P = BATCH * TY * TX;                     // tiles of all images
    const int p = blockIdx.x * THREADS + threadIdx.x;
    const int f = blockIdx.y;
    if (p >= P) return;

    const int image = p / (TY * TX);
    const int ty = p / TX % TY;
    const int tx = p % TX;
    const float* from = M + static_cast<size_t>(f) * P + p;
    const size_t position = static_cast<size_t>(F) * P;  // floats from one position to the next
    float patch[TILE + 1][TILE + 1] = {};                // the tile's results, and a row and column of its neighbours'
    results_of(patch, from, position);
    if (POOL > 1 && CROP == 1) {
        float line[TILE];
        // The sums of the neighbours to the right, below and beyond the corner: from + 1, from + TX, from + TX + 1.
        // BEGIN SOLUTION: the first column, row and corner of those that exist; then move patch by one (about 19 lines)
        // END SOLUTION
    }

    // Windows and their results, before any are written: patch[i * POOL][j * POOL] is the first of window (i, j).
    const int PH = OH / POOL;  // what is left over at an edge belongs to no window
    const int PW = OW / POOL;
    const int before = POOL > 1 ? 0 : CROP;     // without pooling, the first results may lie outside the image
    const int row0 = ty * (TILE / POOL) - before;
    const int col0 = tx * (TILE / POOL) - before;
    float* to = y + (static_cast<size_t>(image) * F + f) * PH * PW;
    #pragma unroll
    for (int i = 0; i < TILE / POOL; ++i) {
        float pooled[TILE / POOL];
        // BEGIN SOLUTION: for each window of row i its largest result, plus bias, and at least 0 (about 8 lines)
        // END SOLUTION
        if (row0 + i >= 0 && row0 + i < PH) {
            store_row(to + (row0 + i) * PW, pooled, col0, PW);
        }
    }
}
