// 02_input_transform.cu: V = B^T d B for every tile d of the images.
// Idea:    4 x 4 results need 6 x 6 pixels, so tiles begin every 4 pixels and overlap by two. Each becomes 6 x 6
//          numbers, by additions and a few multiplications with small constants. A thread keeps a tile in registers;
//          neighbouring lanes have neighbouring tiles, which makes each of the 36 stores one row of 128 bytes:
//          V[position][c][tile]. Pixels outside the image are zero; nobody stores them.
// Limits:  two and a quarter times the image is written (four times for F(2x2)): memory decides the time.
// Entry:   input_transform(const float x[BATCH,C,H,W] in, float V[SIDE*SIDE,C,BATCH*TY*TX] out,
//                          int BATCH, int C, int H, int W, int PAD)
// Sizes:   TY = cdiv(H + 2*PAD - 2, TILE), TX = cdiv(W + 2*PAD - 2, TILE)
// Needs:   H + 2*PAD >= 3, W + 2*PAD >= 3, C <= 65535
// Launch:  input_transform block=(THREADS) grid=(cdiv(BATCH*TY*TX, THREADS), C)

constexpr int TILE = 4;         // results of a tile along each axis: 4, or 2 for F(2x2,3x3)
constexpr int SIDE = TILE + 2;  // pixels of a tile along each axis
constexpr int THREADS = 128;    // one for each tile

// d = B^T d for four pixels: F(2,3).
__device__ void transform_input(float (&d)[4])
{
    const float first = d[0] - d[2];
    const float last = d[1] - d[3];
    const float plus = d[1] + d[2];
    d[2] = d[2] - d[1];
    d[0] = first;
    d[1] = plus;
    d[3] = last;
}

// The same for six pixels: F(4,3).
__device__ void transform_input(float (&d)[6])
{
    // BEGIN SOLUTION: d becomes rows 0 to 5 of B^T times d, in at most 13 operations (about 12 lines)
    // END SOLUTION
}

extern "C" __global__ void __launch_bounds__(THREADS)
input_transform(const float* __restrict__ x, float* __restrict__ V, int BATCH, int C, int H, int W, int PAD)
{
    const int TY = (H + 2 * PAD - 2 + TILE - 1) / TILE;  // tiles of an image
    const int TX = (W + 2 * PAD - 2 + TILE - 1) / TILE;
    const int P = BATCH * TY * TX;                       // tiles of all images
    const int p = blockIdx.x * THREADS + threadIdx.x;
    const int c = blockIdx.y;
    if (p >= P) return;

    const int image = p / (TY * TX);
    const int row0 = p / TX % TY * TILE - PAD;  // the tile's first pixel; outside the image where padding is
    const int col0 = p % TX * TILE - PAD;
    const float* from = x + (static_cast<size_t>(image) * C + c) * H * W;
    float d[SIDE][SIDE];
    // BEGIN SOLUTION: the tile's pixels, zero outside the image (about 9 lines)
    // END SOLUTION
    #pragma unroll
    for (int j = 0; j < SIDE; ++j) {  // B^T d: along the columns
        float column[SIDE];
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) column[i] = d[i][j];
        transform_input(column);
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) d[i][j] = column[i];
    }
    float* to = V + static_cast<size_t>(c) * P + p;
    const size_t position = static_cast<size_t>(C) * P;  // floats from one position to the next
    // BEGIN SOLUTION: then each row of B^T d; write number (i, j) to position i * SIDE + j (about 8 lines)
    // END SOLUTION
}
