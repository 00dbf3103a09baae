// no_barrier.cu: reads the tile before it is full.
// Entry:   average_pool_relu(const float x[BATCH,C,H,W] in, const float bias[C] in, float y[BATCH,C,H / 2,W / 2] out,
//                            int BATCH, int C, int H, int W)
// Sizes:   PH = H / 2, PW = W / 2
// Needs:   H >= 2, W >= 2, BATCH * C * H * W <= 2000000000
// Launch:  average_pool_relu block=(THREADS) grid=(cdiv(BATCH * C * PH * PW, THREADS))

constexpr int THREADS = 256;  // and windows of a block

extern "C" __global__ void average_pool_relu(const float* __restrict__ x, const float* __restrict__ bias,
                                             float* __restrict__ y, int BATCH, int C, int H, int W)
{
    __shared__ float2 upper[THREADS];  // the upper halves of the block's windows, one behind the other
    __shared__ float2 lower[THREADS];
    const int PH = H / 2;
    const int PW = W / 2;
    const int windows = BATCH * C * PH * PW;
    const int first = blockIdx.x * THREADS;  // the block's first window
    const int window = first + threadIdx.x;

    float* const uppers = reinterpret_cast<float*>(upper);
    float* const lowers = reinterpret_cast<float*>(lower);
    for (int i = threadIdx.x; i < 2 * THREADS; i += THREADS) {
        const int w = first + i / 2;  // the window that element i belongs to
        if (w < windows) {
            const int row = (w / (PH * PW) * H + w / PW % PH * 2) * W;
            const int col = w % PW * 2 + i % 2;
            uppers[i] = x[row + col];
            lowers[i] = x[row + W + col];
        }
    }

    if (window < windows) {
        const float more = bias[window / (PH * PW) % C];
        const float2 a = upper[threadIdx.x];  // expect: RACE
        const float2 b = lower[threadIdx.x];
        y[window] = 0.25f * (fmaxf(a.x + more, 0.0f) + fmaxf(a.y + more, 0.0f)
                             + fmaxf(b.x + more, 0.0f) + fmaxf(b.y + more, 0.0f));
    }
}
