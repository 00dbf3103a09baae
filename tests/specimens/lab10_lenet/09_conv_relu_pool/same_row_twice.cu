// same_row_twice.cu: the lower row of results reads the upper one's pixels.
// Entry:   turn(const float w[F,C,R,S] in, float turned[C*R*S,FP] out, int C, int F, int R, int S, int FP)
// Entry:   conv_relu_pool(const float x[BATCH,C,H,W] in, const float turned[C*R*S,FP] in, const float bias[F] in,
//                         float y[BATCH,F,PH,PW] out, int BATCH, int C, int H, int W, int F, int PAD)
// Sizes:   PH = (H + 2 * PAD - FILTER + 1) / 2, PW = (W + 2 * PAD - FILTER + 1) / 2, FP = cdiv(F, FB) * FB,
//          QW = cdiv(PW, 2), T = PH * QW, LANES = cdiv(IMAGES * T, 32) * 32,
//          ROWS = PH + FILTER / 2, COLS = 4 * QW - 4 + WINDOW, PITCH = COLS + (4 * QW + BANKS * COLS - COLS) % BANKS,
//          PLANE = 2 * ROWS * PITCH + (4 * T + BANKS * 2 * ROWS * PITCH - 2 * ROWS * PITCH) % BANKS
// Needs:   R == FILTER, S == FILTER, PH >= 1, PW >= 1, LANES * GROUPS <= MOST
// Scratch: turned
// Launch:  turn block=(BANKS, TURNED) grid=(cdiv(C * R * S, BANKS), cdiv(FP, BANKS))
// Launch:  conv_relu_pool block=(LANES, GROUPS) grid=(cdiv(BATCH, IMAGES * SETS) * (FP / FB)) shared=8 * (IMAGES * PLANE + R * S * FB)

// expect: WA

#include <cuda_pipeline.h>

constexpr int FILTER = 5;            // rows and columns of a filter
constexpr int FPT = 8;               // filters of a thread
constexpr int GROUPS = 1;            // a block computes GROUPS * FPT filters
constexpr int IMAGES = 1;            // for IMAGES images at a time,
constexpr int SETS = 1;              // SETS times
constexpr int MOST = 288;            // threads of a block, at most
constexpr int BLOCKS = 1;            // blocks that share a multiprocessor
constexpr int FB = GROUPS * FPT;
constexpr int WINDOW = (FILTER + 6) / 4 * 4;  // floats of a row that four results need, in whole float4s
constexpr int LOADS = 3;             // copies of a thread whose places are found beforehand
constexpr int BANKS = 32;
constexpr int TURNED = 8;            // rows of filters that are turned at once

static_assert(FPT % 4 == 0, "a thread's filters come in float4s");
static_assert(FILTER <= 32, "filters of a sensible size");

// Reads four neighbouring floats of shared memory by one instruction.
__device__ void get_quad(float* to, const float* from)
{
    const float4 quad = *reinterpret_cast<const float4*>(from);
    to[0] = quad.x;
    to[1] = quad.y;
    to[2] = quad.z;
    to[3] = quad.w;
}

// The filters as rows of elements, zeros for filters that do not exist: lab 04's transposition.
extern "C" __global__ void turn(const float* __restrict__ w, float* __restrict__ turned,
                                int C, int F, int R, int S, int FP)
{
    __shared__ float tile[BANKS][BANKS + 1];  // filters x elements
    const int k0 = blockIdx.x * BANKS;
    const int f0 = blockIdx.y * BANKS;
    const int K = C * R * S;
    for (int i = threadIdx.y; i < BANKS; i += TURNED) {
        const int k = k0 + threadIdx.x;
        tile[i][threadIdx.x] = f0 + i < F && k < K ? w[(f0 + i) * K + k] : 0.0f;
    }
    __syncthreads();
    for (int i = threadIdx.y; i < BANKS; i += TURNED) {
        const int f = f0 + threadIdx.x;
        if (k0 + i < K && f < FP) turned[(k0 + i) * FP + f] = tile[threadIdx.x][i];
    }
}

extern "C" __global__ void __launch_bounds__(MOST, BLOCKS)
conv_relu_pool(const float* __restrict__ x, const float* __restrict__ turned, const float* __restrict__ bias,
               float* __restrict__ y, int BATCH, int C, int H, int W, int F, int PAD)
{
    extern __shared__ __align__(16) float shared[];
    const int PH = (H + 2 * PAD - FILTER + 1) / 2;  // windows of a channel: PH rows of PW
    const int PW = (W + 2 * PAD - FILTER + 1) / 2;
    const int QW = (PW + 1) / 2;                    // threads along a row: two windows each
    const int T = PH * QW;                          // threads of an image
    const int ROWS = PH + FILTER / 2;               // even rows of an image, and as many odd ones
    const int COLS = 4 * QW - 4 + WINDOW;
    const int PITCH = COLS + (4 * QW + BANKS * COLS - COLS) % BANKS;  // rows and images follow each other in the banks
    const int PLANE = 2 * ROWS * PITCH + (4 * T + BANKS * 2 * ROWS * PITCH - 2 * ROWS * PITCH) % BANKS;  // as threads do
    const int STAGE = IMAGES * PLANE + FILTER * FILTER * FB;
    const int FP = (F + FB - 1) / FB * FB;
    const int threads = blockDim.x * GROUPS;
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    const int image = min((int)threadIdx.x / T, IMAGES - 1);  // lanes past the last image repeat its work
    const int pair = threadIdx.x % T;            // the thread's two windows: row pair / QW, columns from pair % QW * 2 on
    const bool works = threadIdx.x < IMAGES * T;
    const int f0 = blockIdx.x % (FP / FB) * FB;  // neighbouring blocks read the same images
    const int n0 = blockIdx.x / (FP / FB) * IMAGES * SETS;
    const int steps = min(SETS, (BATCH - n0 + IMAGES - 1) / IMAGES) * C;
    const int from = image * PLANE + pair / QW * PITCH + pair % QW * 4;  // where in a stage its elements begin
    float sum[FPT][2][4] = {};                   // filters, rows, columns

    // Images are copied by 16 bytes where all rows are aligned, else by 4. Elements outside are zero, now and forever.
    const int wide = W % 4 == 0 && PAD % 4 == 0 ? 4 : 1;
    const int pieces = IMAGES * H * W / wide;
    const auto source_of = [&](int i) { return i * wide / (H * W) * C * H * W + i * wide % (H * W); };
    const auto target_of = [&](int i) {  // -1: no window needs it
        const int e = i * wide % (H * W);
        const int row = e / W + PAD;
        const int col = e % W + PAD;
        const int at = i * wide / (H * W) * PLANE + (row % 2 * ROWS + row / 2) * PITCH + col;
        return row < 2 * ROWS && col < COLS ? at : -1;
    };
    int sources[LOADS];
    int targets[LOADS];
    #pragma unroll
    for (int l = 0; l < LOADS; ++l) {
        sources[l] = source_of(thread + l * threads);
        targets[l] = target_of(thread + l * threads);
    }
    for (int i = thread; i < 2 * STAGE; i += threads) {
        shared[i] = 0.0f;
    }
    __syncthreads();

    const auto copy = [&](float* stage, int target, const float* at) {
        if (target >= 0 && wide == 4) {
            __pipeline_memcpy_async(stage + target, at, 16);
        } else if (target >= 0) {
            __pipeline_memcpy_async(stage + target, at, 4);
        }
    };
    const float* images = x + static_cast<size_t>(n0) * C * H * W;  // what is copied next: a channel of some images,
    const float* weights = turned + f0;                             // and of the filters
    int channel = 0;
    int left = (BATCH - n0) * (H * W / wide);  // pieces of this channel until the batch ends
    const auto load = [&](float* stage) {      // starts the copies
        const int here = min(pieces, left);
        #pragma unroll
        for (int l = 0; l < LOADS; ++l) {
            if (thread + l * threads < here) {
                copy(stage, targets[l], images + sources[l]);
            }
        }
        for (int i = thread + LOADS * threads; i < here; i += threads) {
            copy(stage, target_of(i), images + source_of(i));
        }
        for (int i = thread; i < FILTER * FILTER * FB / 4; i += threads) {
            __pipeline_memcpy_async(
                stage + IMAGES * PLANE + i * 4, weights + i / (FB / 4) * FP + i % (FB / 4) * 4, 16);
        }
        images += H * W;
        weights += FILTER * FILTER * FP;
        if (++channel == C) {  // the next images
            channel = 0;
            images += (IMAGES - 1) * C * H * W;
            weights = turned + f0;
            left -= pieces;
        }
    };

    load(shared);
    int added = 0;  // channels of these images
    int n = n0 + image;
    for (int step = 0; step < steps; ++step) {
        float* stage = shared + step % 2 * STAGE;
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();  // this stage is complete, and nobody reads the other one any more
        if (step + 1 < steps) {
            load(shared + (step + 1) % 2 * STAGE);
        }
        const float* filters = stage + IMAGES * PLANE + threadIdx.y * FPT;
        float piece[2][WINDOW];  // row r of the image is piece[r % 2]
        #pragma unroll
        for (int i = 0; i < WINDOW; i += 4) {
            get_quad(&piece[0][i], stage + from + i);
        }
        #pragma unroll
        for (int r = 0; r < FILTER; ++r) {
            #pragma unroll
            for (int i = 0; i < WINDOW; i += 4) {
                get_quad(&piece[(r + 1) % 2][i], stage + from + ((r + 1) % 2 * ROWS + (r + 1) / 2) * PITCH + i);
            }
            #pragma unroll
            for (int s = 0; s < FILTER; ++s) {
                float weight[FPT];
                #pragma unroll
                for (int f = 0; f < FPT; f += 4) {
                    get_quad(&weight[f], filters + (r * FILTER + s) * FB + f);
                }
                #pragma unroll
                for (int f = 0; f < FPT; ++f) {
                    #pragma unroll
                    for (int turn = 0; turn < 8; ++turn) {
                        const int i = f % 2 == 0 ? turn : 7 - turn;  // to and fro, as in lab 05
                        sum[f][i / 4][i % 4] += weight[f] * piece[r % 2][s + i % 4];
                    }
                }
            }
        }
        if (++added == C) {  // all channels of these images
            const int row = pair / QW;
            const int col = pair % QW * 2;
            #pragma unroll
            for (int f = 0; f < FPT; ++f) {
                const int filter = f0 + threadIdx.y * FPT + f;
                const bool exists = works && n < BATCH && filter < F;
                float means[2] = {};
                const float more = exists ? bias[filter] : 0.0f;
                #pragma unroll
                for (int i = 0; i < 8; ++i) {
                    means[i / 4] += 0.25f * fmaxf(sum[f][i / 2 % 2][i / 4 * 2 + i % 2] + more, 0.0f);
                    sum[f][i / 2 % 2][i / 4 * 2 + i % 2] = 0.0f;
                }
                float* to = y + ((static_cast<size_t>(n) * F + filter) * PH + row) * PW + col;
                if (exists && PW % 2 == 0) {
                    *reinterpret_cast<float2*>(to) = make_float2(means[0], means[1]);
                } else if (exists) {
                    to[0] = means[0];
                    if (col + 1 < PW) to[1] = means[1];
                }
            }
            added = 0;
            n += IMAGES;
        }
    }
}
