// 07_one_by_one.cu: a convolution with filters of 1 x 1 and split channels, for any stride.
// Idea:    without a window there is no halo, and rows do not matter: results are one long row of OH * OW places, a
//          thread computes TP neighbours of it, and a plane of the image is copied by 16 bytes where it allows that.
//          What is left is a product of matrices, filters by channels times channels by places. A stride only
//          changes where the elements of a stage come from: what lies between the places is never loaded.
// From:    06_split_c_grid.cu
// Limits:  TK + TP loads serve TK * TP products, without the R * S uses of a window: larger tiles are needed.
// Entry:   conv(const float x[BATCH,C,H,W] in, const float w[C,R,S,F] in, float y[BATCH,F,OH,OW] out,
//               float part[SPLITS,F,OH,OW] out,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
// Entry:   add(const float part[SPLITS,F,OH,OW] in, float y[BATCH,F,OH,OW] out, int BATCH, int F, int OH, int OW)
// Sizes:   OH = (H + 2 * PAD - 1) / STRIDE + 1, OW = (W + 2 * PAD - 1) / STRIDE + 1
// Needs:   BATCH == 1, R == 1, S == 1, F % FB == 0
// Scratch: part
// Launch:  conv block=(32, BP, BC) grid=(cdiv(OH * OW, PLACES), F / FB, SPLITS) shared=SHARED
// Launch:  add block=(256) grid=(max(1, (SPLITS > 1) * cdiv(F * OH * OW, 256)))

#include <cuda_pipeline.h>

constexpr int TK = 4;         // a thread computes TK filters, 32 apart,
constexpr int TP = 16;        // at TP neighbouring places
constexpr int BP = 4;         // a block has BP warps for neighbouring places,
constexpr int BC = 1;         // BC times: each for its own channels of a stage,
constexpr int SPLITS = 4;     // and the grid SPLITS times: each for its own stages
constexpr int STEP = 8;       // channels of a stage
constexpr int STAGES = 3;     // one is multiplied while the others are on their way
constexpr int UNROLL = 1;     // channels that become straight code: more is longer, and slower to arrive
constexpr int BLOCKS = 1;     // blocks that share a multiprocessor, at least
constexpr int FB = 32 * TK;   // filters of a block
constexpr int PLACES = BP * TP;
constexpr int STAGE = STEP * (PLACES + FB);
constexpr int PADDED = 33;    // floats from one place to the next: lanes meet different banks along filters and places
constexpr int WARPS = BP * BC;
constexpr int THREADS = 32 * WARPS;
constexpr int LOADS = (STEP * PLACES + THREADS - 1) / THREADS;
constexpr int QUADS = FB / 4;            // float4s in the block's part of a row of w
constexpr int ROWS = THREADS / QUADS;    // rows that the block copies at once
constexpr int WIDE = (STEP * PLACES / 4 + THREADS - 1) / THREADS;  // copies by 16 bytes
constexpr int COPIES = (STEP * QUADS + THREADS - 1) / THREADS;
constexpr int SHARED = 4 * ((STAGES * STAGE > BC * PLACES * PADDED) * STAGES * STAGE +
                            (STAGES * STAGE <= BC * PLACES * PADDED) * BC * PLACES * PADDED);
constexpr int OUTSIDE = 1 << 30;  // a place that no array has

static_assert(TP % 4 == 0, "a thread's places come in float4s");
static_assert(THREADS <= 1024, "a block has at most 1024 threads");
static_assert(STEP % BC == 0, "the channels of a stage are dealt out evenly");
static_assert(THREADS % QUADS == 0, "all threads copy equally many rows of w");
static_assert(STAGES >= 2, "one stage is multiplied while another is on its way");

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
conv(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, float* __restrict__ part,
     int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
{
    extern __shared__ __align__(16) float shared[];
    const int OH = (H + 2 * PAD - 1) / STRIDE + 1;
    const int OW = (W + 2 * PAD - 1) / STRIDE + 1;
    const int lane = threadIdx.x;   // along the filters,
    const int warp = threadIdx.y;   // along the places,
    const int group = threadIdx.z;  // and along the channels of a stage
    const int thread = (group * BP + warp) * 32 + lane;
    const int p0 = blockIdx.x * PLACES;
    const int f0 = blockIdx.y * FB;
    const int stages = (C + STEP - 1) / STEP;
    const int share = (stages + SPLITS - 1) / SPLITS;  // of this copy of the grid
    const int first = blockIdx.z * share;
    const int last = min(first + share, stages);
    const bool wide = STRIDE == 1 && PAD == 0 && H * W % 4 == 0;  // planes are copied by 16 bytes
    float sum[TK][TP] = {};

    int source[LOADS];  // where in x the thread's elements of a stage stand, from the stage's first channel on
    #pragma unroll
    for (int l = 0; l < LOADS; ++l) {
        const int e = wide ? (thread + l * THREADS) * 4 : thread + l * THREADS;
        const int p = p0 + e % PLACES;
        source[l] = OUTSIDE;
        // BEGIN SOLUTION: the pixel under place p of the result, if it lies inside, channel e / PLACES (about 9 lines)
        if (STRIDE == 1 && PAD == 0) {  // places and pixels are the same: no division
            source[l] = p < H * W ? e / PLACES * (H * W) + p : OUTSIDE;
        } else {
            const int row = p / OW * STRIDE - PAD;
            const int col = p % OW * STRIDE - PAD;
            if (0 <= row && row < H && 0 <= col && col < W) {
                source[l] = (e / PLACES * H + row) * W + col;
            }
        }
        // END SOLUTION
    }
    const auto load = [&](int stage) {  // starts the copies; what does not exist becomes zero
        float* to = shared + stage % STAGES * STAGE;
        const int c0 = stage * STEP;
        const float* image = x + c0 * H * W;
        const int left = (C - c0) * H * W;  // floats from there to the end of x
        if (wide) {
            #pragma unroll
            for (int l = 0; l < WIDE; ++l) {
                const int e = thread + l * THREADS;
                if ((l + 1) * THREADS <= STEP * PLACES / 4 || e < STEP * PLACES / 4) {
                    const bool exists = source[l] < left;
                    __pipeline_memcpy_async(to + 4 * e, image + (exists ? source[l] : 0), 16, exists ? 0 : 16);
                }
            }
        } else {
            #pragma unroll
            for (int l = 0; l < LOADS; ++l) {
                const int e = thread + l * THREADS;
                if ((l + 1) * THREADS <= STEP * PLACES || e < STEP * PLACES) {
                    const bool exists = source[l] < left;
                    __pipeline_memcpy_async(to + e, image + (exists ? source[l] : 0), 4, exists ? 0 : 4);
                }
            }
        }
        const int row = thread / QUADS;
        const float* weights = w + (c0 + row) * F + f0 + thread % QUADS * 4;
        #pragma unroll
        for (int l = 0; l < COPIES; ++l) {
            const int e = thread + l * THREADS;
            if ((l + 1) * THREADS <= STEP * QUADS || e < STEP * QUADS) {
                const bool exists = row + l * ROWS < (C - c0);
                const float* from = exists ? weights + l * ROWS * F : w;
                __pipeline_memcpy_async(to + STEP * PLACES + 4 * e, from, 16, exists ? 0 : 16);
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
        const float* places = shared + stage % STAGES * STAGE + warp * TP;
        const float* filters = shared + stage % STAGES * STAGE + STEP * PLACES + lane;
        #pragma unroll UNROLL
        for (int turn = 0; turn < STEP / BC; ++turn) {  // a number that the compiler knows
            const int c = turn * BC + group;
            // BEGIN SOLUTION: TP pixels by float4s, TK weights one by one, TK * TP products (about 17 lines)
            float in[TP];
            #pragma unroll
            for (int i = 0; i < TP; i += 4) {
                const float4 quad = *reinterpret_cast<const float4*>(places + c * PLACES + i);
                in[i] = quad.x;
                in[i + 1] = quad.y;
                in[i + 2] = quad.z;
                in[i + 3] = quad.w;
            }
            #pragma unroll
            for (int k = 0; k < TK; ++k) {
                const float weight = filters[c * FB + 32 * k];
                #pragma unroll
                for (int i = 0; i < TP; ++i) {
                    sum[k][i] += weight * in[i];
                }
            }
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
        for (int i = 0; i < TP; ++i) {
            const int place = warp * TP + i;
            shared[(group * PLACES + place) * PADDED + lane] = sum[k][i];
        }
        __syncthreads();
        #pragma unroll 1
        for (int place = lane; place < PLACES; place += 32) {  // lanes along the places, warps along the filters
            if (p0 + place < OH * OW) {
                float* to = out + (f0 + 32 * k + number) * (OH * OW) + p0 + place;
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
