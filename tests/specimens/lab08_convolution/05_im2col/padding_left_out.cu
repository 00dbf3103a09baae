// padding_left_out.cu: writes nothing where a window hangs over the edge.
// Entry:   im2col(const float x[BATCH,C,H,W] in, float cols[BATCH,C*R*S,OH*OW] out,
//                 int BATCH, int C, int H, int W, int R, int S, int STRIDE, int PAD)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S, C <= 65535, BATCH <= 65535
// Launch:  im2col block=(THREADS) grid=(cdiv(OH * OW, THREADS), C, BATCH)

// expect: WA

constexpr int THREADS = 256;

extern "C" __global__ void im2col(const float* __restrict__ x, float* __restrict__ cols,
                                  int BATCH, int C, int H, int W, int R, int S, int STRIDE, int PAD)
{
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int place = blockIdx.x * THREADS + threadIdx.x;
    const int c = blockIdx.y;
    const int n = blockIdx.z;

    if (place < OH * OW) {
        const int top = place / OW * STRIDE - PAD;
        const int left = place % OW * STRIDE - PAD;
        for (int r = 0; r < R; ++r) {
            for (int s = 0; s < S; ++s) {
                const int h = top + r;
                const int v = left + s;
                const bool inside = 0 <= h && h < H && 0 <= v && v < W;
                const int k = (c * R + r) * S + s;
                if (inside) {
                    cols[(n * C * R * S + k) * OH * OW + place] = x[((n * C + c) * H + h) * W + v];
                }
            }
        }
    }
}
