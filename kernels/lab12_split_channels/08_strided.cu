// 08_strided.cu: a direct convolution with split channels for any stride.
// Idea:    with a stride the windows of neighbouring places begin FILTER_STRIDE pixels apart: T places need
//          (T - 1) * FILTER_STRIDE + R rows of the image. Nothing else changes: the same tiles, copies, products and
//          stores. A pixel serves fewer places than before, a weight as many.
// From:    06_split_c_grid.cu
// Limits:  with 1 x 1 filters most of the copied pixels would serve nobody: see 07_one_by_one.cu.
// Entry:   conv(const float x[BATCH,C,H,W] in, const float w[C,R,S,F] in, float y[BATCH,F,OH,OW] out,
//               float part[SPLITS,F,OH,OW] out,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
// Entry:   add(const float part[SPLITS,F,OH,OW] in, float y[BATCH,F,OH,OW] out, int BATCH, int F, int OH, int OW)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1
// Needs:   BATCH == 1, STRIDE == FILTER_STRIDE, R == FILTER_R, S == FILTER_S, F % FB == 0,
//          H + 2 * PAD >= R, W + 2 * PAD >= S
// Scratch: part
// Launch:  conv block=(32, BW * BH, BC) grid=(cdiv(OW, BW * TW) * cdiv(OH, BH * TH), F / FB, SPLITS) shared=SHARED
// Launch:  add block=(256) grid=(max(1, (SPLITS > 1) * cdiv(F * OH * OW, 256)))

#include <cuda_pipeline.h>

constexpr int FILTER_R = 3;
constexpr int FILTER_S = 3;
constexpr int FILTER_STRIDE = 2;
constexpr int TK = 2;         // a thread computes TK filters, 32 apart,
constexpr int TH = 4;         // at TH x TW places
constexpr int TW = 4;
constexpr int BH = 2;         // a block has BH x BW warps for neighbouring places,
constexpr int BW = 2;
constexpr int BC = 1;         // BC times: each for its own channels of a stage,
constexpr int SPLITS = 4;     // and the grid SPLITS times: each for its own stages
constexpr int STEP = 4;       // channels of a stage
constexpr int STAGES = 2;     // one is multiplied while the others are on their way
constexpr int UNROLL = 1;     // channels that become straight code: more is longer, and slower to arrive
constexpr int BLOCKS = 1;     // blocks that share a multiprocessor, at least
constexpr int FB = 32 * TK;   // filters of a block
constexpr int PH = (TH - 1) * FILTER_STRIDE + FILTER_R;       // rows and columns of the image for a thread's places,
constexpr int PW = (TW - 1) * FILTER_STRIDE + FILTER_S;
constexpr int IH = (BH * TH - 1) * FILTER_STRIDE + FILTER_R;  // and for a block's
constexpr int IW = (BW * TW - 1) * FILTER_STRIDE + FILTER_S;
constexpr int PITCH = (IW + 3) / 4 * 4;     // whole float4s
constexpr int PLANE = IH * PITCH;           // floats of a channel in a stage
constexpr int WINDOW = FILTER_R * FILTER_S;
constexpr int STAGE = STEP * (PLANE + WINDOW * FB);
constexpr int PLACES = BH * TH * BW * TW;
constexpr int PADDED = 33;    // floats from one place to the next: lanes meet different banks along filters and places
constexpr int WARPS = BH * BW * BC;
constexpr int THREADS = 32 * WARPS;
constexpr int LOADS = (STEP * PLANE + THREADS - 1) / THREADS;
constexpr int QUADS = FB / 4;            // float4s in the block's part of a row of w
constexpr int ROWS = THREADS / QUADS;    // rows that the block copies at once
constexpr int COPIES = (STEP * WINDOW * QUADS + THREADS - 1) / THREADS;
constexpr int SHARED = 4 * ((STAGES * STAGE > BC * PLACES * PADDED) * STAGES * STAGE +
                            (STAGES * STAGE <= BC * PLACES * PADDED) * BC * PLACES * PADDED);
constexpr int OUTSIDE = 1 << 30;  // a place that no array has

static_assert(THREADS <= 1024, "a block has at most 1024 threads");
static_assert(STEP % BC == 0, "the channels of a stage are dealt out evenly");
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
conv(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, float* __restrict__ part,
     int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
{
    extern __shared__ __align__(16) float shared[];
    const int OH = (H + 2 * PAD - FILTER_R) / FILTER_STRIDE + 1;
    const int OW = (W + 2 * PAD - FILTER_S) / FILTER_STRIDE + 1;
    const int lane = threadIdx.x;   // along the filters,
    const int warp = threadIdx.y;   // along the places,
    const int group = threadIdx.z;  // and along the channels of a stage
    const int thread = (group * BH * BW + warp) * 32 + lane;
    const int across = (OW + BW * TW - 1) / (BW * TW);  // blocks in a row of the result
    const int row0 = blockIdx.x / across * (BH * TH);
    const int col0 = blockIdx.x % across * (BW * TW);
    const int f0 = blockIdx.y * FB;
    const int top = warp / BW * TH;  // the thread's first place in the block
    const int left = warp % BW * TW;
    const int stages = (C + STEP - 1) / STEP;
    const int share = (stages + SPLITS - 1) / SPLITS;  // of this copy of the grid
    const int first = blockIdx.z * share;
    const int last = min(first + share, stages);
    float sum[TK][TH][TW] = {};

    int source[LOADS];  // where in x the thread's elements of a stage stand, from the stage's first channel on
    #pragma unroll
    for (int l = 0; l < LOADS; ++l) {
        const int e = thread + l * THREADS;
        int row = e % PLANE / PITCH;  // in the block's part of the image
        int col = e % PITCH;
        // BEGIN SOLUTION: and in the image itself (about 2 lines)
        // END SOLUTION
        const bool inside = e % PITCH < IW && 0 <= row && row < H && 0 <= col && col < W;
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
                __pipeline_memcpy_async(to + STEP * PLANE + 4 * e, from, 16, exists ? 0 : 16);
            }
        }
    };

    for (int stage = first + 1 - STAGES; stage < last; ++stage) {  // before the first one: copies only
        if (stage >= first) {
            __pipeline_wait_prior(STAGES - 2);
            __syncthreads();  // this stage is complete, and nobody reads the one before it any more
        }
        if (stage + STAGES - 1 < last) {
            load(stage + STAGES - 1);
        }
        __pipeline_commit();
        if (stage < first) continue;
        const float* tile = shared + stage % STAGES * STAGE + (top * PITCH + left) * FILTER_STRIDE;
        const float* filters = shared + stage % STAGES * STAGE + STEP * PLANE + lane;
        #pragma unroll UNROLL
        for (int turn = 0; turn < STEP / BC; ++turn) {  // a number that the compiler knows
            const int c = turn * BC + group;
            // BEGIN SOLUTION: the piece; for each weight the products, places a stride apart (about 20 lines)
            // END SOLUTION
        }
    }
    __pipeline_wait_prior(0);
    __syncthreads();  // the stages make room for the results

    float* out = SPLITS == 1 ? y : part + blockIdx.z * F * OH * OW;
    const int number = thread / 32;  // of the warp in the block
    #pragma unroll
    for (int k = 0; k < TK; ++k) {
        #pragma unroll
        for (int i = 0; i < TH * TW; ++i) {
            const int place = (top + i / TW) * (BW * TW) + left + i % TW;
            shared[(group * PLACES + place) * PADDED + lane] = sum[k][i / TW][i % TW];
        }
        __syncthreads();
        #pragma unroll 1
        for (int place = lane; place < PLACES; place += 32) {  // lanes along the places, warps along the filters
            const int row = row0 + place / (BW * TW);
            const int col = col0 + place % (BW * TW);
            if (row < OH && col < OW) {
                float* to = out + ((f0 + 32 * k + number) * OH + row) * OW + col;
                #pragma unroll
                for (int i = 0; i < 32; i += WARPS) {
                    if (32 % WARPS == 0 || number + i < 32) {
                        float sum_of_groups = 0.0f;
                        #pragma unroll
                        for (int g = 0; g < BC; ++g) {  // always in this order
                            sum_of_groups += shared[(g * PLACES + place) * PADDED + number + i];
                        }
                        to[i * OH * OW] = sum_of_groups;
                    }
                }
            }
        }
        __syncthreads();  // the next 32 filters' results take this place
    }
}

extern "C" __global__ void add(const float* __restrict__ part, float* __restrict__ y,
                               int BATCH, int F, int OH, int OW)
{
    const int size = F * OH * OW;
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (SPLITS > 1 && i < size) {  // else y is complete
        float sum = 0.0f;
        #pragma unroll
        for (int split = 0; split < SPLITS; ++split) {
            sum += part[split * size + i];
        }
        y[i] = sum;
    }
}
