// rows_too_near.cu: takes rows of the tile to follow each other without a gap.
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

// expect: WA

#include <cuda_pipeline.h>

constexpr int FILTER_R = 5;
constexpr int FILTER_S = 5;
constexpr int FPT = 8;
constexpr int QUADS = 2;
constexpr int GROUPS = 1;
constexpr int IMAGES = 4;
constexpr int SETS = 1;
constexpr int MOST = 288;
constexpr int BLOCKS = 1;
constexpr int FB = GROUPS * FPT;
constexpr int WINDOW = (FILTER_S + 6) / 4 * 4;
constexpr int LOADS = 3;
constexpr int BANKS = 32;

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
    const int QW = (OW + 3) / 4;
    const int T = (OH * QW + QUADS - 1) / QUADS;
    const int ROWS = H + 2 * PAD;
    const int COLS = 4 * QW - 4 + WINDOW;
    const int PITCH = COLS + (4 * QW + BANKS * COLS - COLS) % BANKS;
    const int PLANE = ROWS * PITCH + (4 * T + BANKS * ROWS * PITCH - ROWS * PITCH) % BANKS;
    const int STAGE = IMAGES * PLANE + FILTER_R * FILTER_S * FB;
    const int FP = gridDim.y * FB;
    const int threads = blockDim.x * GROUPS;
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    const int image = min((int)threadIdx.x / T, IMAGES - 1);
    const int f0 = blockIdx.y * FB;
    const int n0 = blockIdx.x * IMAGES * SETS;
    const int steps = min(SETS, (BATCH - n0 + IMAGES - 1) / IMAGES) * C;
    float sum[FPT][QUADS][4] = {};

    int from[QUADS];
    #pragma unroll
    for (int q = 0; q < QUADS; ++q) {
        const int quad = min((int)threadIdx.x % T + q * T, OH * QW - 1);
        from[q] = image * PLANE + quad / QW * PITCH + quad % QW * 4;
    }

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
    const auto load = [&](int step) {
        float* stage = shared + step % 2 * STAGE;
        const int c = step % C;
        const int n = n0 + step / C * IMAGES;
        const int here = min(pieces, (BATCH - n) * (H * W / wide));
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
        __syncthreads();
        const float* stage = shared + step % 2 * STAGE;
        const float* filters = stage + IMAGES * PLANE + threadIdx.y * FPT;
        #pragma unroll
        for (int r = 0; r < FILTER_R; ++r) {
            float piece[QUADS][WINDOW];
            #pragma unroll
            for (int q = 0; q < QUADS; ++q) {
                #pragma unroll
                for (int i = 0; i < WINDOW; i += 4) {
                    get_quad(&piece[q][i], stage + from[q] + r * COLS + i);
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
                        const int i = f % 2 == 0 ? turn : 4 * QUADS - 1 - turn;
                        sum[f][i / 4][i % 4] += weight[f] * piece[i / 4][s + i % 4];
                    }
                }
            }
        }
        if (step % C == C - 1) {
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
        __syncthreads();
    }
}
