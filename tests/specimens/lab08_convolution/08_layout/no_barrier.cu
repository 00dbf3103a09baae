// no_barrier.cu: reads the tile before it is full.
// Entry:   to_nhwc(const float x[BATCH,C,H,W] in, float t[BATCH,H,W,C] out, int BATCH, int C, int H, int W)
// Entry:   conv(const float t[BATCH,H,W,C] in, const float w[R,S,C,F] in, float y[BATCH,F,2*OH,OW/2] out,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S, OH % 2 == 0, OW % 2 == 0, BATCH <= 65535
// Scratch: t
// Launch:  to_nhwc block=(TILE, WARPS) grid=(cdiv(H * W, TILE), cdiv(C, TILE), BATCH)
// Launch:  conv block=(TILE, WARPS) grid=(cdiv(OH * OW, TILE), cdiv(F, TILE), BATCH)

constexpr int TILE = 32;
constexpr int WARPS = 8;
constexpr int WPT = TILE / WARPS;
constexpr int PITCH = TILE + 1;

extern "C" __global__ void __launch_bounds__(TILE * WARPS)
to_nhwc(const float* __restrict__ x, float* __restrict__ t, int BATCH, int C, int H, int W)
{
    __shared__ float tile[TILE][PITCH];
    const int lane = threadIdx.x;
    const int n = blockIdx.z;
    const int place0 = blockIdx.x * TILE;
    const int c0 = blockIdx.y * TILE;

    for (int i = threadIdx.y; i < TILE; i += WARPS) {
        const int c = c0 + i;
        const int place = place0 + lane;
        if (c < C && place < H * W) {
            tile[i][lane] = x[(n * C + c) * H * W + place];
        }
    }
    for (int i = threadIdx.y; i < TILE; i += WARPS) {
        const int c = c0 + lane;
        const int place = place0 + i;
        if (c < C && place < H * W) {
            t[(n * H * W + place) * C + c] = tile[lane][i];  // expect: RACE
        }
    }
}

extern "C" __global__ void __launch_bounds__(TILE * WARPS)
conv(const float* __restrict__ t, const float* __restrict__ w, float* __restrict__ y,
     int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
{
    __shared__ float tile[TILE][PITCH];
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int lane = threadIdx.x;
    const int n = blockIdx.z;
    const int place0 = blockIdx.x * TILE;
    const int f0 = blockIdx.y * TILE;

    for (int j = 0; j < WPT; ++j) {
        const int place = place0 + threadIdx.y * WPT + j;
        int row = 0;
        int col = 0;
        const int across = place % (OW / 2);
        const int element = place / (OW / 2) % 4;
        const int down = place / (OW / 2) / 4;
        row = down * 2 + element / 2;
        col = across * 2 + element % 2;
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
    for (int i = threadIdx.y; i < TILE; i += WARPS) {
        const int f = f0 + i;
        const int place = place0 + lane;
        if (f < F && place < OH * OW) {
            y[(n * F + f) * OH * OW + place] = tile[lane][i];
        }
    }
}
