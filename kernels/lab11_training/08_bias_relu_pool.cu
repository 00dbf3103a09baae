// 08_bias_relu_pool.cu: the forward pass that notes what the backward pass will ask.
// Idea:    bias, ReLU and pooling in one pass over the convolution's results, as in lab 10, and four bits for each
//          window: which of its results passed through. A vote makes one word of what the 32 lanes of a warp know, so
//          four votes note 32 windows in 16 bytes: a thirty-second of what keeping the convolution's results takes,
//          and the results may be overwritten. 03_pool_relu_backward.cu reads the bits.
//          Of equal largest results the first passes the slope on.
// From:    03_pool_relu_backward.cu
// Limits:  windows of 2 x 2 that do not overlap.
// Entry:   bias_relu_pool(const float z[BATCH,C,H,W] in, const float bias[C] in, float y[BATCH,C,H / 2,W / 2] out,
//                         unsigned saved[WORDS] out, int BATCH, int C, int H, int W)
// Sizes:   CELLS = BATCH * C * cdiv(H, 2) * cdiv(W, 2),
//          WORDS = PACKED * 4 * cdiv(CELLS, 32) + (1 - PACKED) * cdiv(CELLS, 4)
// Needs:   H >= 2, W >= 2
// Launch:  bias_relu_pool block=(THREADS) grid=(cdiv(CELLS, THREADS))

constexpr int AVERAGE = 0;    // 0: the largest of a window; 1: the mean
constexpr int PACKED = 1;     // 1: four bits for each window; 0: a byte
constexpr int THREADS = 256;  // one for each window
constexpr unsigned ALL = 0xffffffffu;

static_assert(THREADS % 32 == 0, "a warp's 32 windows share four words");

extern "C" __global__ void __launch_bounds__(THREADS)
bias_relu_pool(const float* __restrict__ z, const float* __restrict__ bias, float* __restrict__ y,
               unsigned* __restrict__ saved, int BATCH, int C, int H, int W)
{
    const int across = (W + 1) / 2;  // windows, the incomplete ones at the edge included
    const int down = (H + 1) / 2;
    const int cells = BATCH * C * down * across;
    const int cell = blockIdx.x * THREADS + threadIdx.x;
    const int plane = cell / (down * across);
    const int row = cell / across % down * 2;
    const int col = cell % across * 2;

    unsigned bits = 0;  // bit 2 * i + j: result (i, j) of the window passes the slope on
    if (cell < cells && row + 1 < H && col + 1 < W) {
        const float* from = z + (static_cast<size_t>(plane) * H + row) * W + col;
        float window[4];
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (W % 2 == 0) {
                const float2 pair = *reinterpret_cast<const float2*>(from + i * W);
                window[2 * i] = pair.x;
                window[2 * i + 1] = pair.y;
            } else {
                window[2 * i] = from[i * W];
                window[2 * i + 1] = from[i * W + 1];
            }
        }
        const float offset = bias[plane % C];
        float pooled = 0.0f;
        // BEGIN SOLUTION: pooled and bits: of the largest if above zero, or of all above zero (about 11 lines)
        // END SOLUTION
        y[(static_cast<size_t>(plane) * (H / 2) + row / 2) * (W / 2) + col / 2] = pooled;
    }

    if (PACKED) {
        const int lane = threadIdx.x % 32;
        unsigned word = 0;
        // BEGIN SOLUTION: a vote for each place; lane p keeps the word of place p (about 5 lines)
        // END SOLUTION
        if (lane < 4 && cell - lane < cells) {
            saved[cell / 32 * 4 + lane] = word;
        }
    } else if (cell < (cells + 3) / 4 * 4) {
        reinterpret_cast<unsigned char*>(saved)[cell] = static_cast<unsigned char>(bits);
    }
}
