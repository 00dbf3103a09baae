// 01_register_tile.cu: a direct convolution with a tile of results in each thread's registers.
// Idea:    a thread computes TK filters at TH x TW neighbouring places. For each channel it loads the piece of the
//          image that they need, (TH + R - 1) x (TW + S - 1) pixels, once, and uses it for all its filters; of the
//          filters only one weight at a time is in a register, and serves TH * TW products. So R * S * TK * TH * TW
//          products take (TH + R - 1) * (TW + S - 1) + R * S * TK loads: 288 for 54 with these tiles. Arrays stay in
//          registers only where every index is a constant: all loops over them are unrolled.
//          The lanes of a warp stand for neighbouring filters: w is stored as [C,R,S,F], filters innermost.
// Limits:  the image is read from global memory by every warp; TK filters that are neighbours keep lanes TK floats
//          apart; stride 1; one filter size for each compilation.
// Entry:   conv(const float x[BATCH,C,H,W] in, const float w[C,R,S,F] in, float y[BATCH,F,OH,OW] out,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
// Sizes:   OH = H + 2 * PAD - R + 1, OW = W + 2 * PAD - S + 1
// Needs:   BATCH == 1, STRIDE == 1, R == FILTER_R, S == FILTER_S, F % FB == 0, H + 2 * PAD >= R, W + 2 * PAD >= S
// Launch:  conv block=(32, BW * BH) grid=(cdiv(OW, BW * TW) * cdiv(OH, BH * TH), F / FB)

constexpr int FILTER_R = 3;
constexpr int FILTER_S = 3;
constexpr int TK = 2;         // a thread computes TK neighbouring filters
constexpr int TH = 4;         // at TH x TW places
constexpr int TW = 4;
constexpr int BH = 2;         // a block has BH x BW warps for neighbouring places
constexpr int BW = 2;
constexpr int BLOCKS = 1;     // blocks that share a multiprocessor, at least
constexpr int FB = 32 * TK;   // filters of a block
constexpr int PH = TH + FILTER_R - 1;       // rows and columns of the image for a thread's places
constexpr int PW = TW + FILTER_S - 1;
constexpr int WINDOW = FILTER_R * FILTER_S;
constexpr int THREADS = 32 * BH * BW;

static_assert(THREADS <= 1024, "a block has at most 1024 threads");

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
conv(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
     int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
{
    const int OH = H + 2 * PAD - FILTER_R + 1;
    const int OW = W + 2 * PAD - FILTER_S + 1;
    const int lane = threadIdx.x;  // along the filters,
    const int warp = threadIdx.y;  // along the places
    const int across = (OW + BW * TW - 1) / (BW * TW);  // blocks in a row of the result
    const int row0 = blockIdx.x / across * (BH * TH);
    const int col0 = blockIdx.x % across * (BW * TW);
    const int f0 = blockIdx.y * FB;
    const int top = warp / BW * TH;  // the thread's first place in the block
    const int left = warp % BW * TW;
    float sum[TK][TH][TW] = {};

    for (int c = 0; c < C; ++c) {
        const float* filters = w + c * WINDOW * F + f0 + lane * TK;
        float in[PH][PW];
        // BEGIN SOLUTION: load the piece, zero outside the image; for each weight, TH * TW products (about 25 lines)
        // END SOLUTION
    }

    #pragma unroll
    for (int k = 0; k < TK; ++k) {
        #pragma unroll
        for (int i = 0; i < TH * TW; ++i) {
            const int row = row0 + top + i / TW;
            const int col = col0 + left + i % TW;
            if (row < OH && col < OW) {
                y[((f0 + lane * TK + k) * OH + row) * OW + col] = sum[k][i / TW][i % TW];
            }
        }
    }
}
