// right_flat.cu: one dimension of threads, for all results.
// Entry:   conv(const float x[BATCH,C,H,W] in, const float w[F,C,R,S] in, float y[BATCH,F,OH,OW] out,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S
// Launch:  conv block=(128) grid=(cdiv(BATCH * F * OH * OW, 128))

// expect: AC

extern "C" __global__ void conv(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
                                int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
{
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int i = blockIdx.x * 128 + threadIdx.x;
    const int col = i % OW;
    const int row = i / OW % OH;
    const int f = i / OW / OH % F;
    const int n = i / OW / OH / F;

    if (n < BATCH) {
        float sum = 0.0f;
        for (int c = 0; c < C; ++c) {
            for (int r = 0; r < R; ++r) {
                for (int s = 0; s < S; ++s) {
                    const int h = row * STRIDE + r - PAD;
                    const int v = col * STRIDE + s - PAD;
                    if (0 <= h && h < H && 0 <= v && v < W) {
                        sum += x[((n * C + c) * H + h) * W + v] * w[((f * C + c) * R + r) * S + s];
                    }
                }
            }
        }
        y[((n * F + f) * OH + row) * OW + col] = sum;
    }
}
