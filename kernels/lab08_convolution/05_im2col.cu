// 05_im2col.cu: unroll images into a matrix, so that a convolution becomes a product of matrices.
// Idea:    column (i, j) of cols holds the window of result (i, j), row (c, r, s) one element of all windows. The
//          filters, read as a matrix [F, C*R*S], times it are the results. A thread writes the R * S elements that a
//          window has in one channel: at every step its warp writes neighbours in a row of cols.
// Limits:  an element of x is stored up to R * S times: 25 times the memory for filters of 5 x 5.
// Entry:   im2col(const float x[BATCH,C,H,W] in, float cols[BATCH,C*R*S,OH*OW] out,
//                 int BATCH, int C, int H, int W, int R, int S, int STRIDE, int PAD)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S, C <= 65535, BATCH <= 65535
// Launch:  im2col block=(THREADS) grid=(cdiv(OH * OW, THREADS), C, BATCH)

constexpr int THREADS = 256;

extern "C" __global__ void im2col(const float* __restrict__ x, float* __restrict__ cols,
                                  int BATCH, int C, int H, int W, int R, int S, int STRIDE, int PAD)
{
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int place = blockIdx.x * THREADS + threadIdx.x;  // (i, j), the column of cols
    const int c = blockIdx.y;
    const int n = blockIdx.z;

    // BEGIN SOLUTION: R * S elements, one for each row (c, r, s) of this image's matrix (about 13 lines)
    // END SOLUTION
}
