// 04_split_c_warp.cu: a direct convolution whose channels are split between the lanes of a warp.
// Idea:    the lanes of a warp form WC groups of WK: a group takes its own channels of a stage, and all of them compute
//          the same results. So a warp covers WC times fewer filters, and there are WC times more blocks. At the end
//          shuffles add the groups' sums, always in the same order, without a barrier.
//          Groups read different channels at once: planes and filters of a channel are padded, so that the groups'
//          words lie in different banks.
// From:    03_staged_store.cu
// Limits:  a pixel in shared memory serves WC times fewer filters: the image is loaded WC times as often. The thesis
//          found this the slowest of the three ways to split C.
// Entry:   conv(const float x[BATCH,C,H,W] in, const float w[C,R,S,F] in, float y[BATCH,F,OH,OW] out,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
// Sizes:   OH = H + 2 * PAD - R + 1, OW = W + 2 * PAD - S + 1
// Needs:   BATCH == 1, STRIDE == 1, R == FILTER_R, S == FILTER_S, F % FB == 0, H + 2 * PAD >= R, W + 2 * PAD >= S
// Launch:  conv block=(32, BW * BH) grid=(cdiv(OW, BW * TW) * cdiv(OH, BH * TH), F / FB) shared=SHARED

#include <cuda_pipeline.h>

constexpr int FILTER_R = 3;
constexpr int FILTER_S = 3;
constexpr int TK = 4;         // a thread computes TK filters, WK apart,
constexpr int TH = 4;         // at TH x TW places
constexpr int TW = 4;
constexpr int BH = 2;         // a block has BH x BW warps for neighbouring places
constexpr int BW = 2;
constexpr int WC = 4;         // a warp has WC groups of lanes, each for its own channels of a stage,
constexpr int WK = 32 / WC;   // and WK lanes along the filters
constexpr int STEP = 4;       // channels of a stage
constexpr int STAGES = 2;     // one is multiplied while the others are on their way
constexpr int UNROLL = 1;     // channels that become straight code: more is longer, and slower to arrive
constexpr int BLOCKS = 1;     // blocks that share a multiprocessor, at least
constexpr int FB = WK * TK;   // filters of a block
constexpr int PH = TH + FILTER_R - 1;       // rows and columns of the image for a thread's places,
constexpr int PW = TW + FILTER_S - 1;
constexpr int IH = BH * TH + FILTER_R - 1;  // and for a block's
constexpr int IW = BW * TW + FILTER_S - 1;
constexpr int PITCH = (IW + 3) / 4 * 4;     // whole float4s
constexpr int PLANE = IH * PITCH + (4 + 31 * IH * PITCH) % 32;  // floats of a channel in a stage: 4 banks further on
constexpr int WINDOW = FILTER_R * FILTER_S;
constexpr int WEIGHTS = WINDOW * FB + (WK + 31 * WINDOW * FB) % 32;  // and of its filters: WK banks further on
constexpr int STAGE = STEP * (PLANE + WEIGHTS);
constexpr int PLACES = BH * TH * BW * TW;
constexpr int PADDED = 33;    // floats from one place to the next: lanes meet different banks along filters and places
constexpr int WARPS = BH * BW;
constexpr int THREADS = 32 * WARPS;
constexpr int LOADS = (STEP * PLANE + THREADS - 1) / THREADS;
constexpr int QUADS = FB / 4;            // float4s in the block's part of a row of w
constexpr int ROWS = THREADS / QUADS;    // rows that the block copies at once
constexpr int COPIES = (STEP * WINDOW * QUADS + THREADS - 1) / THREADS;
constexpr int SHARED = 4 * ((STAGES * STAGE > PLACES * PADDED) * STAGES * STAGE +
                            (STAGES * STAGE <= PLACES * PADDED) * PLACES * PADDED);
constexpr int OUTSIDE = 1 << 30;  // a place that no array has

static_assert(THREADS <= 1024, "a block has at most 1024 threads");
static_assert(WC * WK == 32 && WK % 4 == 0 && FB <= 32, "groups of whole float4s, 32 filters at most");
static_assert(STEP % WC == 0, "the channels of a stage are dealt out evenly");
static_assert(THREADS % QUADS == 0, "all threads copy equally many rows of w");
static_assert(STAGES >= 2, "one stage is multiplied while another is on its way");

// Reads N neighbouring floats of shared memory with as few instructions as the alignment of all rows allows.
template <int ALIGNED, int N>
__device__ void get_row(float (&to)[N], const float* from)
{
    constexpr int QUADS = ALIGNED % 4 == 0 ? N / 4 * 4 : 0;
    constexpr int PAIRS = ALIGNED % 2 == 0 ? N / 2 * 2 : QUADS;
    #pragma unroll
    for (int i = 0; i < QUADS; i += 4) {
        const float4 quad = *reinterpret_cast<const float4*>(from + i);
        to[i] = quad.x;
        to[i + 1] = quad.y;
        to[i + 2] = quad.z;
        to[i + 3] = quad.w;
    }
    #pragma unroll
    for (int i = QUADS; i < PAIRS; i += 2) {
        const float2 pair = *reinterpret_cast<const float2*>(from + i);
        to[i] = pair.x;
        to[i + 1] = pair.y;
    }
    #pragma unroll
    for (int i = PAIRS; i < N; ++i) {
        to[i] = from[i];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
conv(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
     int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
{
    extern __shared__ __align__(16) float shared[];
    const int OH = H + 2 * PAD - FILTER_R + 1;
    const int OW = W + 2 * PAD - FILTER_S + 1;
    const int lane = threadIdx.x % WK;   // along the filters,
    const int group = threadIdx.x / WK;  // along the channels of a stage,
    const int warp = threadIdx.y;        // and along the places
    const int thread = warp * 32 + threadIdx.x;
    const int across = (OW + BW * TW - 1) / (BW * TW);  // blocks in a row of the result
    const int row0 = blockIdx.x / across * (BH * TH);
    const int col0 = blockIdx.x % across * (BW * TW);
    const int f0 = blockIdx.y * FB;
    const int top = warp / BW * TH;  // the thread's first place in the block
    const int left = warp % BW * TW;
    const int stages = (C + STEP - 1) / STEP;
    float sum[TK][TH][TW] = {};

    int source[LOADS];  // where in x the thread's elements of a stage stand, from the stage's first channel on
    #pragma unroll
    for (int l = 0; l < LOADS; ++l) {
        const int e = thread + l * THREADS;
        const int row = row0 + e % PLANE / PITCH - PAD;
        const int col = col0 + e % PLANE % PITCH - PAD;
        const bool inside = e % PLANE % PITCH < IW && 0 <= row && row < H && 0 <= col && col < W;
        source[l] = inside ? (e / PLANE * H + row) * W + col : OUTSIDE;
    }
    const auto load = [&](int stage) {  // starts the copies; what does not exist becomes zero
        float* to = shared + stage % STAGES * STAGE;
        const int c0 = stage * STEP;
        const float* image = x + c0 * H * W;
        const int left = (C - c0) * H * W;  // floats from there to the end of x
        #pragma unroll
        for (int l = 0; l < LOADS; ++l) {
            const int e = thread + l * THREADS;
            if ((l + 1) * THREADS <= STEP * PLANE || e < STEP * PLANE) {
                const bool exists = source[l] < left;
                __pipeline_memcpy_async(to + e, image + (exists ? source[l] : 0), 4, exists ? 0 : 4);
            }
        }
        const int row = thread / QUADS;
        const float* weights = w + (c0 * WINDOW + row) * F + f0 + thread % QUADS * 4;
        #pragma unroll
        for (int l = 0; l < COPIES; ++l) {
            const int e = thread + l * THREADS;
            if ((l + 1) * THREADS <= STEP * WINDOW * QUADS || e < STEP * WINDOW * QUADS) {
                const bool exists = row + l * ROWS < (C - c0) * WINDOW;
                const float* from = exists ? weights + l * ROWS * F : w;
                float* target = to + STEP * PLANE + 4 * e / (WINDOW * FB) * WEIGHTS + 4 * e % (WINDOW * FB);
                __pipeline_memcpy_async(target, from, 16, exists ? 0 : 16);
            }
        }
    };

    for (int stage = 1 - STAGES; stage < stages; ++stage) {  // before the first one: copies only
        if (stage >= 0) {
            __pipeline_wait_prior(STAGES - 2);
            __syncthreads();  // this stage is complete, and nobody reads the one before it any more
        }
        if (stage + STAGES - 1 < stages) {
            load(stage + STAGES - 1);
        }
        __pipeline_commit();
        if (stage < 0) continue;
        const float* tile = shared + stage % STAGES * STAGE + top * PITCH + left;
        const float* filters = shared + stage % STAGES * STAGE + STEP * PLANE + lane;
        #pragma unroll UNROLL
        for (int c = group; c < STEP; c += WC) {
            float in[PH][PW];
            #pragma unroll
            for (int i = 0; i < PH; ++i) {
                get_row<BW == 1 ? 4 : TW>(in[i], tile + c * PLANE + i * PITCH);
            }
            #pragma unroll
            for (int k = 0; k < TK; ++k) {
                #pragma unroll
                for (int r = 0; r < FILTER_R; ++r) {
                    #pragma unroll
                    for (int s = 0; s < FILTER_S; ++s) {
                        const float weight = filters[c * WEIGHTS + (r * FILTER_S + s) * FB + WK * k];
                        #pragma unroll
                        for (int i = 0; i < TH * TW; ++i) {
                            sum[k][i / TW][i % TW] += weight * in[i / TW + r][i % TW + s];
                        }
                    }
                }
            }
        }
    }
    __pipeline_wait_prior(0);
    __syncthreads();  // the stages make room for the results

    // BEGIN SOLUTION: add the groups' sums by shuffles; all lanes then know all sums of their filters (about 8 lines)
    #pragma unroll
    for (int distance = WK; distance < 32; distance *= 2) {
        #pragma unroll
        for (int i = 0; i < TK * TH * TW; ++i) {
            float& mine = sum[i / (TH * TW)][i / TW % TH][i % TW];
            mine += __shfl_xor_sync(0xffffffffu, mine, distance);
        }
    }
    // END SOLUTION
    #pragma unroll
    for (int k = 0; k < TK; ++k) {
        #pragma unroll
        for (int i = 0; i < TH * TW; ++i) {
            const int place = (top + i / TW) * (BW * TW) + left + i % TW;
            if (k % WC == group) {  // the groups take turns: all know the same
                shared[place * PADDED + WK * k + lane] = sum[k][i / TW][i % TW];
            }
        }
    }
    __syncthreads();
    const int number = warp;
    #pragma unroll 1
    for (int place = threadIdx.x; place < PLACES; place += 32) {  // lanes along the places, warps along the filters
        const int row = row0 + place / (BW * TW);
        const int col = col0 + place % (BW * TW);
        if (row < OH && col < OW) {
            float* to = y + ((f0 + number) * OH + row) * OW + col;
            #pragma unroll
            for (int i = 0; i < FB; i += WARPS) {
                if (FB % WARPS == 0 || number + i < FB) {
                    to[i * OH * OW] = shared[place * PADDED + number + i];
                }
            }
        }
    }
}
