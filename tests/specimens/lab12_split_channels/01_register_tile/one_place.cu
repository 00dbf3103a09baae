// one_place.cu: gives every thread a single place.
// Entry:   conv(const float x[BATCH,C,H,W] in, const float w[C,R,S,F] in, float y[BATCH,F,OH,OW] out,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
// Sizes:   OH = H + 2 * PAD - R + 1, OW = W + 2 * PAD - S + 1
// Needs:   BATCH == 1, STRIDE == 1, R == FILTER_R, S == FILTER_S, F % FB == 0, H + 2 * PAD >= R, W + 2 * PAD >= S
// Launch:  conv block=(32, BW * BH) grid=(cdiv(OW, BW * TW) * cdiv(OH, BH * TH), F / FB)

constexpr int FILTER_R = 3;
constexpr int FILTER_S = 3;
constexpr int TK = 2;         // a thread computes TK neighbouring filters
constexpr int TH = 1;         // at TH x TW places
constexpr int TW = 1;
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
        #pragma unroll
        for (int i = 0; i < PH * PW; ++i) {
            const int row = row0 + top + i / PW - PAD;
            const int col = col0 + left + i % PW - PAD;
            const bool inside = 0 <= row && row < H && 0 <= col && col < W;
            in[i / PW][i % PW] = inside ? x[(c * H + row) * W + col] : 0.0f;
        }
        #pragma unroll
        for (int k = 0; k < TK; ++k) {
            #pragma unroll
            for (int r = 0; r < FILTER_R; ++r) {
                #pragma unroll
                for (int s = 0; s < FILTER_S; ++s) {
                    const float weight = filters[(r * FILTER_S + s) * F + k];
                    #pragma unroll
                    for (int i = 0; i < TH * TW; ++i) {
                        sum[k][i / TW][i % TW] += weight * in[i / TW + r][i % TW + s];
                    }
                }
            }
        }
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
// expect: PERF
