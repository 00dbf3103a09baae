// 03_direct_shared.cu: a convolution whose block keeps its part of the image in shared memory.
// Idea:    neighbouring results share most of their windows. A block of BH x BW results needs (BH - 1) * STRIDE + R
//          rows and (BW - 1) * STRIDE + S columns of a channel, the halo included. Loaded once, an element serves
//          up to R * S results: 18.4 on average for 24 x 24 results and filters of 5 x 5, 11.1 for 8 x 8.
//          Rows of the tile are PITCH floats apart, so that a thread's place in the tile falls into the bank of its
//          place in the block: with a block 24 wide and rows of 28 floats, lane 24 would meet lane 0's neighbours.
// From:    01_direct.cu
// Limits:  the 8 x 8 results of a small layer are a block of two warps; each block loads the filter again.
// Entry:   conv(const float x[BATCH,C,H,W] in, const float w[F,C,R,S] in, float y[BATCH,F,OH,OW] out,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1,
//          BH = cdiv(OH, cdiv(OH, MOST)), BW = cdiv(OW, cdiv(OW, MOST)),
//          ROWS = (BH - 1) * STRIDE + R, COLS = (BW - 1) * STRIDE + S, PITCH = COLS + (BW + BANKS * COLS - COLS) % BANKS
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S
// Launch:  conv block=(BW, BH) grid=(BATCH * F, cdiv(OH, MOST), cdiv(OW, MOST)) shared=4 * (ROWS * PITCH + R * S)

constexpr int MOST = 32;   // a block has at most MOST x MOST threads; a larger channel is cut into equal parts
constexpr int BANKS = 32;  // of shared memory

extern "C" __global__ void conv(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
                                int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
{
    extern __shared__ float shared[];
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int BH = blockDim.y;
    const int BW = blockDim.x;
    const int ROWS = (BH - 1) * STRIDE + R;  // of the tile
    const int COLS = (BW - 1) * STRIDE + S;
    const int PITCH = COLS + (BW + BANKS * COLS - COLS) % BANKS;  // the smallest with the same bank as BW
    float* tile = shared;                   // [ROWS][PITCH], of which COLS are used
    float* filter = shared + ROWS * PITCH;  // [R][S]
    const int n = blockIdx.x / F;  // the image
    const int f = blockIdx.x % F;  // the filter
    const int row0 = blockIdx.y * BH;
    const int col0 = blockIdx.z * BW;
    const int row = row0 + threadIdx.y;
    const int col = col0 + threadIdx.x;
    float sum = 0.0f;

    for (int c = 0; c < C; ++c) {
        // BEGIN SOLUTION: load tile and filter of channel c, zero outside the image; add R * S products (about 18 lines)
        // END SOLUTION
    }

    if (row < OH && col < OW) {
        y[((n * F + f) * OH + row) * OW + col] = sum;
    }
}
