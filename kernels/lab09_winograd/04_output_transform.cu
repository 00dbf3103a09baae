// 04_output_transform.cu: Y = A^T M A for every tile of sums M.
// Idea:    the way back: 6 x 6 sums over the channels become 4 x 4 results. It is done once for a filter and a tile,
//          however many channels there are. Tiles that reach over the image's edge are cropped; where the image's
//          rows allow it, a thread writes a row of its tile with one instruction.
// Limits:  M is two and a quarter times as large as the result: memory decides the time.
// Entry:   output_transform(const float M[SIDE*SIDE,F,BATCH*TY*TX] in, float y[BATCH,F,OH,OW] out,
//                           int BATCH, int F, int OH, int OW)
// Sizes:   TY = cdiv(OH, TILE), TX = cdiv(OW, TILE)
// Needs:   F <= 65535
// Launch:  output_transform block=(THREADS) grid=(cdiv(BATCH*TY*TX, THREADS), F)

constexpr int TILE = 4;         // results of a tile along each axis: 4, or 2 for F(2x2,3x3)
constexpr int SIDE = TILE + 2;  // sums of a tile along each axis
constexpr int THREADS = 128;    // one for each tile

// y = A^T m for four sums: F(2,3).
__device__ void transform_output(float (&y)[2], const float (&m)[4])
{
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] - m[3];
}

// The same for six sums: F(4,3).
__device__ void transform_output(float (&y)[4], const float (&m)[6])
{
    // BEGIN SOLUTION: y[0] to y[3], rows 0 to 3 of A^T times m, in at most 10 operations (about 8 lines)
    // END SOLUTION
}

// Writes a row of a tile, except what lies outside the image; `space` is the number of columns that are left.
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
    const int TY = (OH + TILE - 1) / TILE;  // tiles of an image
    const int TX = (OW + TILE - 1) / TILE;
    const int P = BATCH * TY * TX;          // tiles of all images
    const int p = blockIdx.x * THREADS + threadIdx.x;
    const int f = blockIdx.y;
    if (p >= P) return;

    const float* from = M + static_cast<size_t>(f) * P + p;
    const size_t position = static_cast<size_t>(F) * P;  // floats from one position to the next
    float m[SIDE][SIDE];
    #pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        #pragma unroll
        for (int j = 0; j < SIDE; ++j) {
            m[i][j] = from[(i * SIDE + j) * position];
        }
    }
    float middle[TILE][SIDE];  // A^T M: along the columns
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
    const int row0 = p / TX % TY * TILE;  // the tile's first result
    const int col0 = p % TX * TILE;
    float* to = y + ((static_cast<size_t>(image) * F + f) * OH + row0) * OW + col0;
    // BEGIN SOLUTION: then each row of A^T M that lies in the image, by store_row (about 8 lines)
    // END SOLUTION
}
