// 02_average_pool.cu: the mean of each window of 2 x 2.
// Idea:    one thread for each window; windows lie side by side, so neighbouring threads write neighbours. A row or
//          column that is left over belongs to no window.
// Limits:  a warp reads every second element of a row: it touches twice the sectors that its bytes fill.
// Entry:   average_pool(const float x[BATCH,C,H,W] in, float y[BATCH,C,H / 2,W / 2] out,
//                       int BATCH, int C, int H, int W)
// Sizes:   PH = H / 2, PW = W / 2
// Needs:   H >= 2, W >= 2, BATCH * C * H * W <= 2000000000
// Launch:  average_pool block=(THREADS) grid=(cdiv(BATCH * C * PH * PW, THREADS))

constexpr int THREADS = 256;

extern "C" __global__ void average_pool(const float* __restrict__ x, float* __restrict__ y,
                                        int BATCH, int C, int H, int W)
{
    const int PH = H / 2;  // windows of a channel: PH rows of PW
    const int PW = W / 2;
    const int window = blockIdx.x * THREADS + threadIdx.x;

    // BEGIN SOLUTION: where the window begins in x, and a quarter of its sum (about 7 lines)
    // END SOLUTION
}
