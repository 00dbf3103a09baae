// right_by_eight_bytes.cu: loads eight bytes at a time where rows are even.
// Entry:   average_pool_relu(const float x[BATCH,C,H,W] in, const float bias[C] in, float y[BATCH,C,H / 2,W / 2] out,
//                            int BATCH, int C, int H, int W)
// Sizes:   PH = H / 2, PW = W / 2
// Needs:   H >= 2, W >= 2, BATCH * C * H * W <= 2000000000
// Launch:  average_pool_relu block=(THREADS) grid=(cdiv(BATCH * C * PH * PW, THREADS))

// expect: AC

constexpr int THREADS = 256;

extern "C" __global__ void average_pool_relu(const float* __restrict__ x, const float* __restrict__ bias,
                                             float* __restrict__ y, int BATCH, int C, int H, int W)
{
    const int PH = H / 2;  // windows of a channel: PH rows of PW
    const int PW = W / 2;
    const int window = blockIdx.x * THREADS + threadIdx.x;

    if (window < BATCH * C * PH * PW) {
        const int plane = window / (PH * PW);  // channel of an image
        const int row = window / PW % PH * 2;
        const int col = window % PW * 2;
        const float* from = x + (plane * H + row) * W + col;
        const float more = bias[plane % C];
        float2 a;
        float2 b;
        if (W % 2 == 0) {
            a = *reinterpret_cast<const float2*>(from);
            b = *reinterpret_cast<const float2*>(from + W);
        } else {
            a = make_float2(from[0], from[1]);
            b = make_float2(from[W], from[W + 1]);
        }
        const float upper = fmaxf(a.x + more, 0.0f) + fmaxf(a.y + more, 0.0f);
        const float lower = fmaxf(b.x + more, 0.0f) + fmaxf(b.y + more, 0.0f);
        y[window] = 0.25f * (upper + lower);
    }
}
