// corner_forgotten.cu: takes the column and the row of the neighbours, and nothing of the one across the corner.
// Entry:   fused_epilogue(const float M[SIDE*SIDE,F,BATCH*TY*TX] in, const float bias[F] in,
//                         float y[BATCH,F,OH / POOL,OW / POOL] out, int BATCH, int F, int OH, int OW, int CROP)
// Sizes:   TY = cdiv(OH + 2*CROP, TILE), TX = cdiv(OW + 2*CROP, TILE)
// Needs:   F <= 65535, CROP <= 1, OH >= POOL, OW >= POOL
// Launch:  fused_epilogue block=(THREADS) grid=(cdiv(BATCH*TY*TX, THREADS), F)

// expect: WA

constexpr int TILE = 4;
constexpr int SIDE = TILE + 2;
constexpr int POOL = 2;
constexpr int THREADS = 128;

__device__ void transform_output(float (&y)[2], const float (&m)[4])
{
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] - m[3];
}

__device__ void transform_output(float (&y)[4], const float (&m)[6])
{
    const float even_ones = m[1] + m[2];
    const float odd_ones = m[1] - m[2];
    const float even_twos = m[3] + m[4];
    const float odd_twos = m[3] - m[4];
    y[0] = m[0] + even_ones + even_twos;
    y[1] = fmaf(2.0f, odd_twos, odd_ones);
    y[2] = fmaf(4.0f, even_twos, even_ones);
    y[3] = fmaf(8.0f, odd_twos, odd_ones) + m[5];
}

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
    const int TY = (OH + 2 * CROP + TILE - 1) / TILE;
    const int TX = (OW + 2 * CROP + TILE - 1) / TILE;
    const int P = BATCH * TY * TX;
    const int p = blockIdx.x * THREADS + threadIdx.x;
    const int f = blockIdx.y;
    if (p >= P) return;

    const int image = p / (TY * TX);
    const int ty = p / TX % TY;
    const int tx = p % TX;
    const float* from = M + static_cast<size_t>(f) * P + p;
    const size_t position = static_cast<size_t>(F) * P;
    float patch[TILE + 1][TILE + 1] = {};
    results_of(patch, from, position);
    if (POOL > 1 && CROP == 1) {
        float line[TILE];
        if (tx + 1 < TX) {
            first_line_of(line, from + 1, position, SIDE * position);
            #pragma unroll
            for (int i = 0; i < TILE; ++i) patch[i][TILE] = line[i];
        }
        if (ty + 1 < TY) {
            first_line_of(line, from + TX, SIDE * position, position);
            #pragma unroll
            for (int j = 0; j < TILE; ++j) patch[TILE][j] = line[j];
        }
        if (tx + 1 < TX && ty + 1 < TY) {
            first_line_of(line, from + TX + 1, position, SIDE * position);
            patch[TILE][TILE] = patch[TILE][TILE - 1];
        }
        #pragma unroll
        for (int i = 0; i < TILE * TILE; ++i) {
            patch[i / TILE][i % TILE] = patch[i / TILE + 1][i % TILE + 1];
        }
    }

    const int PH = OH / POOL;
    const int PW = OW / POOL;
    const int before = POOL > 1 ? 0 : CROP;
    const int row0 = ty * (TILE / POOL) - before;
    const int col0 = tx * (TILE / POOL) - before;
    float* to = y + (static_cast<size_t>(image) * F + f) * PH * PW;
    #pragma unroll
    for (int i = 0; i < TILE / POOL; ++i) {
        float pooled[TILE / POOL];
        #pragma unroll
        for (int j = 0; j < TILE / POOL; ++j) {
            float largest = patch[i * POOL][j * POOL];
            #pragma unroll
            for (int k = 1; k < POOL * POOL; ++k) {
                largest = fmaxf(largest, patch[i * POOL + k / POOL][j * POOL + k % POOL]);
            }
            pooled[j] = fmaxf(largest + bias[f], 0.0f);
        }
        if (row0 + i >= 0 && row0 + i < PH) {
            store_row(to + (row0 + i) * PW, pooled, col0, PW);
        }
    }
}
