// every_row_by_itself.cu: each row of A^T with its own additions: right, in more operations.
// Entry:   output_transform(const float M[SIDE*SIDE,F,BATCH*TY*TX] in, float y[BATCH,F,OH,OW] out,
//                           int BATCH, int F, int OH, int OW)
// Sizes:   TY = cdiv(OH, TILE), TX = cdiv(OW, TILE)
// Needs:   F <= 65535
// Launch:  output_transform block=(THREADS) grid=(cdiv(BATCH*TY*TX, THREADS), F)

// expect: PERF

constexpr int TILE = 4;
constexpr int SIDE = TILE + 2;
constexpr int THREADS = 128;

__device__ void transform_output(float (&y)[2], const float (&m)[4])
{
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] - m[3];
}

__device__ void transform_output(float (&y)[4], const float (&m)[6])
{
    y[0] = m[0] + m[1] + m[2] + m[3] + m[4];
    y[1] = m[1] - m[2] + 2.0f * m[3] - 2.0f * m[4];
    y[2] = m[1] + m[2] + 4.0f * m[3] + 4.0f * m[4];
    y[3] = m[1] - m[2] + 8.0f * m[3] - 8.0f * m[4] + m[5];
}

__device__ void store_row(float* to, const float (&y)[TILE], int space, int OW)
{
    if (OW % 4 == 0 && TILE == 4) {
        *reinterpret_cast<float4*>(to) = make_float4(y[0], y[1], y[TILE - 2], y[TILE - 1]);
    } else if (OW % 2 == 0) {
        #pragma unroll
        for (int j = 0; j < TILE; j += 2) {
            if (j < space) *reinterpret_cast<float2*>(to + j) = make_float2(y[j], y[j + 1]);
        }
    } else {
        #pragma unroll
        for (int j = 0; j < TILE; ++j) {
            if (j < space) to[j] = y[j];
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
output_transform(const float* __restrict__ M, float* __restrict__ y, int BATCH, int F, int OH, int OW)
{
    const int TY = (OH + TILE - 1) / TILE;
    const int TX = (OW + TILE - 1) / TILE;
    const int P = BATCH * TY * TX;
    const int p = blockIdx.x * THREADS + threadIdx.x;
    const int f = blockIdx.y;
    if (p >= P) return;

    const float* from = M + static_cast<size_t>(f) * P + p;
    const size_t position = static_cast<size_t>(F) * P;
    float m[SIDE][SIDE];
    #pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        #pragma unroll
        for (int j = 0; j < SIDE; ++j) {
            m[i][j] = from[(i * SIDE + j) * position];
        }
    }
    float middle[TILE][SIDE];
    #pragma unroll
    for (int j = 0; j < SIDE; ++j) {
        float column[SIDE];
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) column[i] = m[i][j];
        float results[TILE];
        transform_output(results, column);
        #pragma unroll
        for (int i = 0; i < TILE; ++i) middle[i][j] = results[i];
    }
    const int image = p / (TY * TX);
    const int row0 = p / TX % TY * TILE;
    const int col0 = p % TX * TILE;
    float* to = y + ((static_cast<size_t>(image) * F + f) * OH + row0) * OW + col0;
    #pragma unroll
    for (int i = 0; i < TILE; ++i) {
        if (row0 + i < OH) {
            float results[TILE];
            transform_output(results, middle[i]);
            store_row(to + i * OW, results, OW - col0, OW);
        }
    }
}
