// 12_register_tiles.cu: a direct convolution as fast as the chip multiplies.
// Idea:    a thread computes FPT filters at QUADS * 4 places. For one row of a window it reads a piece of the image
//          from shared memory into registers, and uses it S times, sliding by one; the FPT elements of the filters
//          come as float4s that all lanes share. That is 14 wide loads for 320 multiply-adds with filters of 5 x 5,
//          and no arithmetic of addresses: what im2col would store and implicit GEMM looks up is just an offset.
//          Channels, and sets of images, follow each other in a loop: while one is multiplied the next is on its way,
//          copied from global to shared memory without a detour through registers.
// From:    04_direct_multi_image.cu
// Limits:  a set of images must fit a block and its shared memory; stride 1; one filter size for each compilation.
// Entry:   turn(const float w[F,C,R,S] in, float turned[C*R*S,FP] out, int C, int F, int R, int S, int FP)
// Entry:   conv(const float x[BATCH,C,H,W] in, const float turned[C*R*S,FP] in, float y[BATCH,F,OH,OW] out,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD)
// Sizes:   OH = H + 2 * PAD - R + 1, OW = W + 2 * PAD - S + 1, FP = cdiv(F, FB) * FB,
//          QW = cdiv(OW, 4), T = cdiv(OH * QW, QUADS), LANES = cdiv(IMAGES * T, 32) * 32,
//          ROWS = H + 2 * PAD, COLS = 4 * QW - 4 + WINDOW, PITCH = COLS + (4 * QW + BANKS * COLS - COLS) % BANKS,
//          PLANE = ROWS * PITCH + (4 * T + BANKS * ROWS * PITCH - ROWS * PITCH) % BANKS
// Needs:   R == FILTER_R, S == FILTER_S, STRIDE == 1, H + 2 * PAD >= R, W + 2 * PAD >= S, LANES * GROUPS <= MOST
// Scratch: turned
// Launch:  turn block=(256) grid=(cdiv(C * R * S * FP, 256))
// Launch:  conv block=(LANES, GROUPS) grid=(cdiv(BATCH, IMAGES * SETS), FP / FB) shared=8 * (IMAGES * PLANE + R * S * FB)

#include <cuda_pipeline.h>

constexpr int FILTER_R = 5;
constexpr int FILTER_S = 5;
constexpr int FPT = 8;               // filters of a thread
constexpr int QUADS = 2;             // and groups of four neighbouring places
constexpr int GROUPS = 1;            // a block computes GROUPS * FPT filters
constexpr int IMAGES = 4;            // for IMAGES images at a time,
constexpr int SETS = 1;              // SETS times
constexpr int MOST = 288;            // threads of a block, at most
constexpr int BLOCKS = 1;            // blocks that share a multiprocessor
constexpr int FB = GROUPS * FPT;
constexpr int WINDOW = (FILTER_S + 6) / 4 * 4;  // floats of a row that a quad needs, in whole float4s
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
    const int OH = H + 2 * PAD - FILTER_R + 1;
    const int OW = W + 2 * PAD - FILTER_S + 1;
    const int QW = (OW + 3) / 4;                 // quads in a row
    const int T = (OH * QW + QUADS - 1) / QUADS;  // threads of an image
    const int ROWS = H + 2 * PAD;
    const int COLS = 4 * QW - 4 + WINDOW;
    const int PITCH = COLS + (4 * QW + BANKS * COLS - COLS) % BANKS;  // rows and images follow each other in the banks
    const int PLANE = ROWS * PITCH + (4 * T + BANKS * ROWS * PITCH - ROWS * PITCH) % BANKS;  // as the threads do
    const int STAGE = IMAGES * PLANE + FILTER_R * FILTER_S * FB;
    const int FP = gridDim.y * FB;
    const int threads = blockDim.x * GROUPS;
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    const int image = min((int)threadIdx.x / T, IMAGES - 1);  // lanes past the last image repeat its work
    const int f0 = blockIdx.y * FB;
    const int n0 = blockIdx.x * IMAGES * SETS;
    const int steps = min(SETS, (BATCH - n0 + IMAGES - 1) / IMAGES) * C;
    float sum[FPT][QUADS][4] = {};

    int from[QUADS];  // where in a stage the windows of the thread's quads begin
    #pragma unroll
    for (int q = 0; q < QUADS; ++q) {
        const int quad = min((int)threadIdx.x % T + q * T, OH * QW - 1);
        from[q] = image * PLANE + quad / QW * PITCH + quad % QW * 4;
    }

    // Images are copied by 16 bytes where all rows are aligned, else by 4. Elements outside are zero, now and forever.
    const int wide = W % 4 == 0 && PAD % 4 == 0 ? 4 : 1;
    const int pieces = IMAGES * H * W / wide;
    const auto source_of = [&](int i) { return i * wide / (H * W) * C * H * W + i * wide % (H * W); };
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
    const auto load = [&](int step) {  // starts the copies of one channel of one set of images
        float* stage = shared + step % 2 * STAGE;
        const int c = step % C;
        const int n = n0 + step / C * IMAGES;
        const int here = min(pieces, (BATCH - n) * (H * W / wide));  // fewer images in the last set
        const float* images = x + (n * C + c) * H * W;
        #pragma unroll
        for (int l = 0; l < LOADS; ++l) {
            if (thread + l * threads < here) {
                copy(stage + targets[l], images + sources[l]);
            }
        }
        for (int i = thread + LOADS * threads; i < here; i += threads) {
            copy(stage + target_of(i), images + source_of(i));
        }
        float* filters = stage + IMAGES * PLANE;
        for (int i = thread; i < FILTER_R * FILTER_S * FB / 4; i += threads) {
            const int k = c * FILTER_R * FILTER_S + i / (FB / 4);
            __pipeline_memcpy_async(filters + i * 4, turned + k * FP + f0 + i % (FB / 4) * 4, 16);
        }
    };

    if (steps > 0) {
        load(0);
    }
    __pipeline_commit();
    for (int step = 0; step < steps; ++step) {
        if (step + 1 < steps) {
            load(step + 1);
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();  // the stage is complete
        const float* stage = shared + step % 2 * STAGE;
        const float* filters = stage + IMAGES * PLANE + threadIdx.y * FPT;
        // BEGIN SOLUTION: for each row of the window QUADS pieces of the image, used S times (about 27 lines)
        // END SOLUTION
        if (step % C == C - 1) {  // all channels of these images
            const int n = n0 + step / C * IMAGES + image;
            #pragma unroll
            for (int q = 0; q < QUADS; ++q) {
                const int quad = threadIdx.x % T + q * T;
                const int col = quad % QW * 4;
                const bool valid = threadIdx.x < IMAGES * T && n < BATCH && quad < OH * QW;
                #pragma unroll
                for (int f = 0; f < FPT; ++f) {
                    const int filter = f0 + threadIdx.y * FPT + f;
                    float* to = y + ((n * F + filter) * OH + quad / QW) * OW + col;
                    if (valid && filter < F) {
                        if (OW % 4 == 0) {
                            *reinterpret_cast<float4*>(to) =
                                make_float4(sum[f][q][0], sum[f][q][1], sum[f][q][2], sum[f][q][3]);
                        } else {
                            #pragma unroll
                            for (int e = 0; e < 4; ++e) {
                                if (col + e < OW) to[e] = sum[f][q][e];
                            }
                        }
                    }
                    #pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        sum[f][q][e] = 0.0f;
                    }
                }
            }
        }
        __syncthreads();  // nobody reads this stage any more
    }
}
