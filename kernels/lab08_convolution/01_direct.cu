// 01_direct.cu: a convolution with one thread for each element of the result.
// Idea:    an element of y is a sum of its own: C * R * S elements of a window of x times those of one filter. A
//          block computes a part of one channel of y, and is shaped like it: the 24 x 24 results of a channel
//          are 576 threads, where a block of 32 x 32 would have 448 with nothing to do.
// Limits:  two loads from global memory for every multiply-add.
// Entry:   conv(const float x[BATCH,C,H,W] in, const float w[F,C,R,S] in, float y[BATCH,F,OH,OW] out,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S
// Launch:  conv block=(cdiv(OW, cdiv(OW, MOST)), cdiv(OH, cdiv(OH, MOST))) grid=(BATCH * F, cdiv(OH, MOST), cdiv(OW, MOST))

constexpr int MOST = 32;  // a block has at most MOST x MOST threads; a larger channel is cut into equal parts

extern "C" __global__ void conv(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
                                int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
{
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int n = blockIdx.x / F;  // the image
    const int f = blockIdx.x % F;  // the filter
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.z * blockDim.x + threadIdx.x;

    // BEGIN SOLUTION: one sum over c, r and s; x is zero outside the image (about 16 lines)
    // END SOLUTION
}
