// column_first.cu: numbers the window column by column.
// Entry:   max_pool(const float x[BATCH,C,H,W] in, float y[BATCH,C,H / 2,W / 2] out,
//                   unsigned char index[BATCH,C,H / 2,W / 2] out, int BATCH, int C, int H, int W)
// Sizes:   PH = H / 2, PW = W / 2
// Needs:   H >= 2, W >= 2, BATCH * C * H * W <= 2000000000
// Launch:  max_pool block=(THREADS) grid=(cdiv(BATCH * C * PH * PW, THREADS))

// expect: WA

constexpr int THREADS = 256;

extern "C" __global__ void max_pool(const float* __restrict__ x, float* __restrict__ y,
                                    unsigned char* __restrict__ index, int BATCH, int C, int H, int W)
{
    const int PH = H / 2;  // windows of a channel: PH rows of PW
    const int PW = W / 2;
    const int window = blockIdx.x * THREADS + threadIdx.x;
    if (window >= BATCH * C * PH * PW) return;
    const int row = window / PW % PH * 2;
    const int col = window % PW * 2;
    const float* from = x + (window / (PH * PW) * H + row) * W + col;

    float largest = from[0];
    unsigned char which = 0;
    #pragma unroll
    for (int i = 1; i < 4; ++i) {
        const float candidate = from[i % 2 * W + i / 2];
        if (candidate > largest) {
            largest = candidate;
            which = i;
        }
    }
    y[window] = largest;
    index[window] = which;
}
