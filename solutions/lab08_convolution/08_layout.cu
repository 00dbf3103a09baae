// 08_layout.cu: a convolution between the layouts that suit it and its neighbours.
// Idea:    three layouts meet here. The network's images are NCHW. The convolution's lanes stand for filters: they
//          want x as NHWC, where all lanes read one element, and filters as [R,S,C,F], where they read neighbours.
//          The pooling behind it wants the four elements of a window of 2 x 2 under each other, as 4 x 1: then its
//          lanes, one window each, read neighbours in all four rows. To change a layout is to read along one axis
//          and write along another, through a tile of shared memory; the convolution does it on its way out, so
//          that no pass over memory is spent on it.
// Limits:  results of odd height or width have no windows of 2 x 2.
// Entry:   to_nhwc(const float x[BATCH,C,H,W] in, float t[BATCH,H,W,C] out, int BATCH, int C, int H, int W)
// Entry:   conv(const float t[BATCH,H,W,C] in, const float w[R,S,C,F] in, float y[BATCH,F,2*OH,OW/2] out,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S, OH % 2 == 0, OW % 2 == 0, BATCH <= 65535
// Scratch: t
// Launch:  to_nhwc block=(TILE, WARPS) grid=(cdiv(H * W, TILE), cdiv(C, TILE), BATCH)
// Launch:  conv block=(TILE, WARPS) grid=(cdiv(OH * OW, TILE), cdiv(F, TILE), BATCH)

constexpr int TILE = 32;             // a block turns TILE channels at TILE places
constexpr int WARPS = 8;
constexpr int WPT = TILE / WARPS;    // work per thread: places
constexpr int PITCH = TILE + 1;      // one column of padding: a column of the tile lies in 32 banks

static_assert(TILE == 32, "a warp reads or writes one row of the tile");
static_assert(TILE % WARPS == 0, "the warps' rows cover the tile exactly");

extern "C" __global__ void __launch_bounds__(TILE * WARPS)
to_nhwc(const float* __restrict__ x, float* __restrict__ t, int BATCH, int C, int H, int W)
{
    __shared__ float tile[TILE][PITCH];  // [channel][place]
    const int lane = threadIdx.x;
    const int n = blockIdx.z;
    const int place0 = blockIdx.x * TILE;
    const int c0 = blockIdx.y * TILE;

    // BEGIN SOLUTION: in with lanes along places, out with lanes along channels (about 15 lines)
    for (int i = threadIdx.y; i < TILE; i += WARPS) {
        const int c = c0 + i;
        const int place = place0 + lane;
        if (c < C && place < H * W) {
            tile[i][lane] = x[(n * C + c) * H * W + place];
        }
    }
    __syncthreads();
    for (int i = threadIdx.y; i < TILE; i += WARPS) {
        const int c = c0 + lane;
        const int place = place0 + i;
        if (c < C && place < H * W) {
            t[(n * H * W + place) * C + c] = tile[lane][i];
        }
    }
    // END SOLUTION
}

extern "C" __global__ void __launch_bounds__(TILE * WARPS)
conv(const float* __restrict__ t, const float* __restrict__ w, float* __restrict__ y,
     int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
{
    __shared__ float tile[TILE][PITCH];  // [place][filter]
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int lane = threadIdx.x;
    const int n = blockIdx.z;
    const int place0 = blockIdx.x * TILE;  // of y: (window's row, element of the window, window's column)
    const int f0 = blockIdx.y * TILE;

    for (int j = 0; j < WPT; ++j) {
        const int place = place0 + threadIdx.y * WPT + j;  // all lanes of a warp: one place, 32 filters
        int row = 0;  // which result stands there
        int col = 0;
        // BEGIN SOLUTION: windows of 2 x 2, numbered row by row, are columns of 4 elements (about 5 lines)
        const int across = place % (OW / 2);
        const int element = place / (OW / 2) % 4;
        const int down = place / (OW / 2) / 4;
        row = down * 2 + element / 2;
        col = across * 2 + element % 2;
        // END SOLUTION
        float sum = 0.0f;
        for (int r = 0; r < R; ++r) {
            for (int s = 0; s < S; ++s) {
                const int h = row * STRIDE + r - PAD;
                const int v = col * STRIDE + s - PAD;
                if (0 <= h && h < H && 0 <= v && v < W && f0 + lane < F) {
                    for (int c = 0; c < C; ++c) {
                        sum += t[((n * H + h) * W + v) * C + c] * w[((r * S + s) * C + c) * F + f0 + lane];
                    }
                }
            }
        }
        tile[threadIdx.y * WPT + j][lane] = sum;
    }
    __syncthreads();
    // BEGIN SOLUTION: out with lanes along places, one filter a warp at a time (about 7 lines)
    for (int i = threadIdx.y; i < TILE; i += WARPS) {
        const int f = f0 + i;
        const int place = place0 + lane;
        if (f < F && place < OH * OW) {
            y[(n * F + f) * OH * OW + place] = tile[lane][i];
        }
    }
    // END SOLUTION
}
