// 02_direct_constant.cu: a convolution with filters in constant memory, as many at a time as fit there.
// Idea:    all threads of a warp want the same element of a filter. The constant cache serves such a load in one
//          pass, beside the path of global memory, and hands it straight to the multiply-add. It holds 65,536
//          bytes: the 32 filters of 5 x 5 of a first layer fit; 64 filters of 32 x 5 x 5 come in four parts, one
//          launch each, filters F0 to F0 + PART. A load whose lanes want different words takes a pass for each.
// From:    01_direct.cu
// Limits:  x still comes from global memory, R * S times. A branch: the filters are no argument.
// Entry:   conv(const float x[BATCH,C,H,W] in, float y[BATCH,F,OH,OW] inout,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD, int F0, int PART)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S, 0 <= F0, F0 + PART <= F, PART * C * R * S <= ROOM
// Constant: filters <- part
// Launch:  conv block=(cdiv(OW, cdiv(OW, MOST)), cdiv(OH, cdiv(OH, MOST))) grid=(BATCH * PART, cdiv(OH, MOST), cdiv(OW, MOST))

constexpr int MOST = 32;     // a block has at most MOST x MOST threads; a larger channel is cut into equal parts
constexpr int ROOM = 16384;  // floats in constant memory

__constant__ float filters[ROOM];  // [PART,C,R,S]

extern "C" __global__ void conv(const float* __restrict__ x, float* __restrict__ y,
                                int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD,
                                int F0, int PART)
{
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int n = blockIdx.x / PART;  // the image
    const int f = blockIdx.x % PART;  // the filter, of this part
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.z * blockDim.x + threadIdx.x;

    // BEGIN SOLUTION: the sum as before, with filters[...], into channel F0 + f of y (about 16 lines)
    // END SOLUTION
}
