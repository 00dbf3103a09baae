// 04_direct_multi_image.cu: a convolution whose block computes the same part of several images.
// Idea:    a channel of 8 x 8 results makes a small block. Four images side by side make one of 256 threads: they
//          meet the same filter, which is loaded once for all of them, and all warps are full.
// From:    03_direct_shared.cu
// Limits:  two loads from shared memory for every multiply-add.
// Entry:   conv(const float x[BATCH,C,H,W] in, const float w[F,C,R,S] in, float y[BATCH,F,OH,OW] out,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1,
//          BH = cdiv(OH, cdiv(OH, MOST)), BW = cdiv(OW, cdiv(OW, MOST)), BI = max(1, min(IMAGES, 1024 / (BH * BW))),
//          ROWS = (BH - 1) * STRIDE + R, COLS = (BW - 1) * STRIDE + S, PITCH = COLS + (BW + BANKS * COLS - COLS) % BANKS,
//          PLANE = ROWS * PITCH + (BH * BW + BANKS * ROWS * PITCH - ROWS * PITCH) % BANKS
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S
// Launch:  conv block=(BW, BH, BI) grid=(cdiv(BATCH, BI) * F, cdiv(OH, MOST), cdiv(OW, MOST)) shared=4 * (BI * PLANE + R * S)

constexpr int MOST = 32;   // a block has at most MOST x MOST threads for an image; larger channels are cut
constexpr int IMAGES = 4;  // images of a block, if so many fit into 1024 threads
constexpr int BANKS = 32;  // of shared memory

extern "C" __global__ void conv(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
                                int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
{
    extern __shared__ float shared[];
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int BI = blockDim.z;
    const int BH = blockDim.y;
    const int BW = blockDim.x;
    const int ROWS = (BH - 1) * STRIDE + R;  // of an image's tile
    const int COLS = (BW - 1) * STRIDE + S;
    const int PITCH = COLS + (BW + BANKS * COLS - COLS) % BANKS;  // rows and images follow each other in the banks
    const int PLANE = ROWS * PITCH + (BH * BW + BANKS * ROWS * PITCH - ROWS * PITCH) % BANKS;  // as the threads do
    float* filter = shared + BI * PLANE;  // [R][S]
    const int f = blockIdx.x % F;         // the filter
    const int row0 = blockIdx.y * BH;
    const int col0 = blockIdx.z * BW;
    const int row = row0 + threadIdx.y;
    const int col = col0 + threadIdx.x;
    int n = 0;              // the thread's image
    float* tile = nullptr;  // its tile: [ROWS][PITCH], of which COLS are used
    // BEGIN SOLUTION: which image, and which tile of shared memory, is it? (about 2 lines)
    // END SOLUTION
    float sum = 0.0f;

    for (int c = 0; c < C; ++c) {
        // BEGIN SOLUTION: all threads of an image load its tile, all threads of the block the filter (about 18 lines)
        // END SOLUTION
    }

    if (n < BATCH && row < OH && col < OW) {
        y[((n * F + f) * OH + row) * OW + col] = sum;
    }
}
