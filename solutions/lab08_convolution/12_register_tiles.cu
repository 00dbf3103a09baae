// 12_register_tiles.cu: a direct convolution as fast as the chip multiplies.
// Idea:    a thread computes FPT filters at QUADS * 4 places. For one row of a window it reads a piece of the image
//          from shared memory into registers, and uses it S times, sliding by one; the FPT elements of the filters
//          come as float4s that all lanes share. That is 14 wide loads for 320 multiply-adds with filters of 5 x 5,
//          and no arithmetic of addresses: what im2col would store and implicit GEMM looks up is just an offset.
//          Channels, and sets of images, follow each other in a loop: while one is multiplied the next is on its way,
//          copied from global to shared memory without a detour through registers. FIXED_ constants tell the compiler
//          what the sizes are: addresses become constants, and their registers are free for what multiplies.
// From:    04_direct_multi_image.cu
// Limits:  a set of images must fit a block and its shared memory; stride 1; one filter size for each compilation.
// Entry:   turn(const float w[F,C,R,S] in, float turned[C*R*S,FP] out, int C, int F, int R, int S, int FP)
// Entry:   conv(const float x[BATCH,C,H,W] in, const float turned[C*R*S,FP] in, float y[BATCH,F,OH,OW] out,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
// Sizes:   OH = H + 2 * PAD - R + 1, OW = W + 2 * PAD - S + 1, FP = cdiv(F, FB) * FB,
//          QW = cdiv(OW, 4), T = cdiv(OH * QW, QUADS), LANES = cdiv(IMAGES * T, 32) * 32,
//          ROWS = H + 2 * PAD, COLS = 4 * QW - 4 + WINDOW, PITCH = COLS + (4 * QW + BANKS * COLS - COLS) % BANKS,
//          PLANE = ROWS * PITCH + (4 * T + BANKS * ROWS * PITCH - ROWS * PITCH) % BANKS
// Needs:   R == FILTER_R, S == FILTER_S, STRIDE == 1, H + 2 * PAD >= R, W + 2 * PAD >= S, LANES * GROUPS <= MOST,
//          FIXED_C * (C - FIXED_C) == 0, FIXED_H * (H - FIXED_H) == 0, FIXED_W * (W - FIXED_W) == 0,
//          FIXED_F * (F - FIXED_F) == 0, (FIXED_PAD + 1) * (PAD - FIXED_PAD) == 0
// Scratch: turned
// Launch:  turn block=(256) grid=(cdiv(C * R * S * FP, 256))
// Launch:  conv block=(LANES, GROUPS) grid=(cdiv(BATCH, IMAGES * SETS) * (FP / FB)) shared=8 * (IMAGES * PLANE + R * S * FB)

#include <cuda_pipeline.h>

constexpr int FILTER_R = 5;
constexpr int FILTER_S = 5;
constexpr int FIXED_C = 0;           // 0: as the argument says
constexpr int FIXED_H = 0;
constexpr int FIXED_W = 0;
constexpr int FIXED_F = 0;
constexpr int FIXED_PAD = -1;        // -1: as the argument says
constexpr int FPT = 8;               // filters of a thread
constexpr int QUADS = 2;             // and groups of four neighbouring places
constexpr int GROUPS = 1;            // a block computes GROUPS * FPT filters
constexpr int IMAGES = 4;            // for IMAGES images at a time,
constexpr int SETS = 1;              // SETS times
constexpr int MOST = 288;            // threads of a block, at most
constexpr int BLOCKS = 1;            // blocks that share a multiprocessor
constexpr int FB = GROUPS * FPT;
constexpr int WINDOW = (FILTER_S + 6) / 4 * 4;  // floats of a row that a quad needs, in whole float4s
constexpr int ROWS_AT_ONCE = FILTER_R;  // rows of a window that become straight code
constexpr int LOADS = 3;             // copies of a thread whose places are found beforehand
constexpr int BANKS = 32;

static_assert(FPT % 4 == 0, "a thread's filters come in float4s");
static_assert(FILTER_S <= 32 && FILTER_R <= 32, "filters of a sensible size");

// Reads four neighbouring floats of shared memory by one instruction.
__device__ void get_quad(float* to, const float* from)
{
    const float4 quad = *reinterpret_cast<const float4*>(from);
    to[0] = quad.x;
    to[1] = quad.y;
    to[2] = quad.z;
    to[3] = quad.w;
}

// And writes four to global memory.
__device__ void put_quad(float* to, const float* from)
{
    *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
}

extern "C" __global__ void turn(const float* __restrict__ w, float* __restrict__ turned,
                                int C, int F, int R, int S, int FP)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < C * R * S * FP) {
        turned[i] = i % FP < F ? w[i % FP * C * R * S + i / FP] : 0.0f;
    }
}

extern "C" __global__ void __launch_bounds__(MOST, BLOCKS)
conv(const float* __restrict__ x, const float* __restrict__ turned, float* __restrict__ y,
     int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
{
    extern __shared__ __align__(16) float shared[];
    if (FIXED_C > 0) C = FIXED_C;
    if (FIXED_H > 0) H = FIXED_H;
    if (FIXED_W > 0) W = FIXED_W;
    if (FIXED_F > 0) F = FIXED_F;
    if (FIXED_PAD >= 0) PAD = FIXED_PAD;
    const int OH = H + 2 * PAD - FILTER_R + 1;
    const int OW = W + 2 * PAD - FILTER_S + 1;
    const int QW = (OW + 3) / 4;                 // quads in a row
    const int T = (OH * QW + QUADS - 1) / QUADS;  // threads of an image
    const int ROWS = H + 2 * PAD;
    const int COLS = 4 * QW - 4 + WINDOW;
    const int PITCH = COLS + (4 * QW + BANKS * COLS - COLS) % BANKS;  // rows and images follow each other in the banks
    const int PLANE = ROWS * PITCH + (4 * T + BANKS * ROWS * PITCH - ROWS * PITCH) % BANKS;  // as the threads do
    const int STAGE = IMAGES * PLANE + FILTER_R * FILTER_S * FB;
    const int FP = (F + FB - 1) / FB * FB;
    const int threads = blockDim.x * GROUPS;
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    const int image = min((int)threadIdx.x / T, IMAGES - 1);  // lanes past the last image repeat its work
    const int f0 = blockIdx.x % (FP / FB) * FB;  // neighbouring blocks read the same images
    const int n0 = blockIdx.x / (FP / FB) * IMAGES * SETS;
    const int sets = min(SETS, (BATCH - n0 + IMAGES - 1) / IMAGES);

    int from[QUADS];   // where in a stage the windows of the thread's quads begin,
    int place[QUADS];  // and where in a channel of y their results stand
    #pragma unroll
    for (int q = 0; q < QUADS; ++q) {
        const int quad = threadIdx.x % T + q * T;
        const int inside = min(quad, OH * QW - 1);
        from[q] = image * PLANE + inside / QW * PITCH + inside % QW * 4;
        place[q] = threadIdx.x < IMAGES * T && quad < OH * QW ? quad / QW * OW + quad % QW * 4 : -1;
    }

    // Images are copied by 16 bytes where all rows are aligned, else by 4. Elements outside are zero, now and forever.
    const int wide = W % 4 == 0 && PAD % 4 == 0 ? 4 : 1;
    const int pieces = IMAGES * H * W / wide;
    const auto source_of = [&](int i) {
        return C == 1 ? i * wide : i * wide / (H * W) * C * H * W + i * wide % (H * W);
    };
    const auto target_of = [&](int i) {
        const int e = i * wide % (H * W);
        return i * wide / (H * W) * PLANE + (e / W + PAD) * PITCH + e % W + PAD;
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

    const auto copy = [&](float* to, const float* at) {
        if (wide == 4) {
            __pipeline_memcpy_async(to, at, 16);
        } else {
            __pipeline_memcpy_async(to, at, 4);
        }
    };
    const float* images = x + n0 * C * H * W;  // what is copied next: a channel of a set of images,
    const float* weights = turned + f0;        // and of the filters
    int channel = 0;
    int left = (BATCH - n0) * (H * W / wide);  // pieces of this channel until the batch ends
    const auto load = [&](float* stage, bool with_filters) {  // starts the copies
        const int here = min(pieces, left);
        #pragma unroll
        for (int l = 0; l < LOADS; ++l) {
            if (thread + l * threads < here) {
                copy(stage + targets[l], images + sources[l]);
            }
        }
        for (int i = thread + LOADS * threads; i < here; i += threads) {
            copy(stage + target_of(i), images + source_of(i));
        }
        for (int i = thread; with_filters && i < FILTER_R * FILTER_S * FB / 4; i += threads) {
            __pipeline_memcpy_async(
                stage + IMAGES * PLANE + i * 4, weights + i / (FB / 4) * FP + i % (FB / 4) * 4, 16);
        }
        images += H * W;
        weights += FILTER_R * FILTER_S * FP;
        if (++channel == C) {  // the next set
            channel = 0;
            images += (IMAGES - 1) * C * H * W;
            weights = turned + f0;
            left -= pieces;
        }
    };

    load(shared, true);
    int step = 0;
    int n = n0 + image;
    for (int set = 0; set < sets; ++set) {
        float sum[FPT][QUADS][4] = {};
        for (int c = 0; c < C; ++c) {
            float* stage = shared + step % 2 * STAGE;
            ++step;
            __pipeline_commit();
            __pipeline_wait_prior(0);
            __syncthreads();  // this stage is complete, and nobody reads the other one any more
            if (step < sets * C) {
                load(shared + step % 2 * STAGE, C > 1 || step == 1);  // of one channel each stage keeps the filters
            }
            const float* filters = stage + IMAGES * PLANE + threadIdx.y * FPT;
            // BEGIN SOLUTION: for each row of the window QUADS pieces of the image, used S times (about 27 lines)
            #pragma unroll ROWS_AT_ONCE
            for (int r = 0; r < FILTER_R; ++r) {
                float piece[QUADS][WINDOW];
                #pragma unroll
                for (int q = 0; q < QUADS; ++q) {
                    #pragma unroll
                    for (int i = 0; i < WINDOW; i += 4) {
                        get_quad(&piece[q][i], stage + from[q] + r * PITCH + i);
                    }
                }
                #pragma unroll
                for (int s = 0; s < FILTER_S; ++s) {
                    float weight[FPT];
                    #pragma unroll
                    for (int f = 0; f < FPT; f += 4) {
                        get_quad(&weight[f], filters + (r * FILTER_S + s) * FB + f);
                    }
                    #pragma unroll
                    for (int f = 0; f < FPT; ++f) {
                        #pragma unroll
                        for (int turn = 0; turn < 4 * QUADS; ++turn) {
                            const int i = f % 2 == 0 ? turn : 4 * QUADS - 1 - turn;  // to and fro, as in lab 05
                            sum[f][i / 4][i % 4] += weight[f] * piece[i / 4][s + i % 4];
                        }
                    }
                }
            }
            // END SOLUTION
        }
        const int own = F % FB == 0 ? FPT : F - f0 - threadIdx.y * FPT;  // so many of the thread's filters exist
        float* results = y + (static_cast<size_t>(n) * F + f0 + threadIdx.y * FPT) * (OH * OW);
        #pragma unroll
        for (int q = 0; q < QUADS; ++q) {
            if (place[q] >= 0 && n < BATCH) {
                float* to = results + place[q];
                if (OW % 4 == 0) {
                    #pragma unroll
                    for (int f = 0; f < FPT; ++f) {
                        if (f >= own) break;
                        put_quad(to + f * (OH * OW), sum[f][q]);
                    }
                } else {
                    const int cols = OW - place[q] % OW;
                    #pragma unroll
                    for (int f = 0; f < FPT; ++f) {
                        if (f >= own) break;
                        #pragma unroll
                        for (int e = 0; e < 4; ++e) {
                            if (e < cols) to[f * (OH * OW) + e] = sum[f][q][e];
                        }
                    }
                }
            }
        }
        n += IMAGES;
    }
}
