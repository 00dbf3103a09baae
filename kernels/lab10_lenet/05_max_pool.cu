// 05_max_pool.cu: the largest of each window of 2 x 2, and which one it was.
// Idea:    going back, the gradient of a window goes to its largest element only. Which one that was is a number from
//          0 to 3, so a byte holds it; an int would take four times the memory, and the element's own index as well.
// Limits:  two bits would do, for whoever packs four windows into a byte.
// Entry:   max_pool(const float x[BATCH,C,H,W] in, float y[BATCH,C,H / 2,W / 2] out,
//                   unsigned char index[BATCH,C,H / 2,W / 2] out, int BATCH, int C, int H, int W)
// Sizes:   PH = H / 2, PW = W / 2
// Needs:   H >= 2, W >= 2, BATCH * C * H * W <= 2000000000
// Launch:  max_pool block=(THREADS) grid=(cdiv(BATCH * C * PH * PW, THREADS))

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

    // BEGIN SOLUTION: the largest and its number, 2 * row + column in the window, the first of equals (about 12 lines)
    // END SOLUTION
}
