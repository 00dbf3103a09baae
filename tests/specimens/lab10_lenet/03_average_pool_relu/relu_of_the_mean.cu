// relu_of_the_mean.cu: averages first.
// Entry:   average_pool_relu(const float x[BATCH,C,H,W] in, const float bias[C] in, float y[BATCH,C,H / 2,W / 2] out,
//                            int BATCH, int C, int H, int W)
// Sizes:   PH = H / 2, PW = W / 2
// Needs:   H >= 2, W >= 2, BATCH * C * H * W <= 2000000000
// Launch:  average_pool_relu block=(THREADS) grid=(cdiv(BATCH * C * PH * PW, THREADS))

// expect: WA

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
        const float upper = from[0] + from[1];
        const float lower = from[W] + from[W + 1];
        y[window] = fmaxf(0.25f * (upper + lower) + more, 0.0f);
    }
}
