// 03_pool_relu_backward.cu: back through pooling and ReLU, by what the forward pass noted.
// Idea:    a result of the convolution mattered if it was its window's largest (with the mean: any), and above zero.
//          Four bits for each window of 2 x 2 say which did; the convolution's results themselves are not needed any
//          more. A bit that is set passes the slope on (with the mean: a quarter of it), all others pass zero.
//          The forward pass notes the bits of 32 windows as four words, one vote of the warp for each place: half a
//          byte for each window. Without PACKED each window has a byte of its own: simpler, twice as large.
//          At odd sizes the last row and column belong to no whole window; theirs are windows too, with bits of 0.
// From:    lab10_lenet/05_max_pool.cu
// Limits:  windows of 2 x 2 that do not overlap.
// Entry:   pool_relu_backward(const float dy[BATCH,C,H / 2,W / 2] in, const unsigned saved[WORDS] in,
//                             float dz[BATCH,C,H,W] out, int BATCH, int C, int H, int W)
// Sizes:   CELLS = BATCH * C * cdiv(H, 2) * cdiv(W, 2),
//          WORDS = PACKED * 4 * cdiv(CELLS, 32) + (1 - PACKED) * cdiv(CELLS, 4)
// Needs:   H >= 2, W >= 2
// Launch:  pool_relu_backward block=(THREADS) grid=(cdiv(CELLS, THREADS))

constexpr int AVERAGE = 0;    // 0: the largest of a window; 1: the mean
constexpr int PACKED = 1;     // 1: four bits for each window; 0: a byte
constexpr int THREADS = 256;  // one for each window

static_assert(THREADS % 32 == 0, "a warp's 32 windows share four words");

extern "C" __global__ void __launch_bounds__(THREADS)
pool_relu_backward(const float* __restrict__ dy, const unsigned* __restrict__ saved, float* __restrict__ dz,
                   int BATCH, int C, int H, int W)
{
    const int across = (W + 1) / 2;  // windows, the incomplete ones at the edge included
    const int down = (H + 1) / 2;
    const int cell = blockIdx.x * THREADS + threadIdx.x;
    if (cell >= BATCH * C * down * across) return;

    unsigned bits = 0;  // bit 2 * i + j: result (i, j) of the window passes the slope on
    if (PACKED) {
        // BEGIN SOLUTION: place p is bit cell % 32 of word p of the four of 32 windows (about 5 lines)
        // END SOLUTION
    } else {
        bits = reinterpret_cast<const unsigned char*>(saved)[cell];
    }
    const int plane = cell / (down * across);
    const int row = cell / across % down * 2;
    const int col = cell % across * 2;
    float slope = 0.0f;
    if (row + 1 < H && col + 1 < W) {
        slope = dy[(static_cast<size_t>(plane) * (H / 2) + row / 2) * (W / 2) + col / 2];
        if (AVERAGE) slope *= 0.25f;
    }
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        if (row + i >= H) break;
        float* to = dz + (static_cast<size_t>(plane) * H + row + i) * W + col;
        const float left = bits >> (2 * i) & 1 ? slope : 0.0f;
        const float right = bits >> (2 * i + 1) & 1 ? slope : 0.0f;
        // BEGIN SOLUTION: both by one store where W is even, else one by one, none outside (about 6 lines)
        // END SOLUTION
    }
}
