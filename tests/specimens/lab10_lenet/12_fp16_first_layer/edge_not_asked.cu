// edge_not_asked.cu: reads past the last image.
// Entry:   first_layer(const half x[BATCH,H,W] in, const half w[F,R,S] in, const float bias[F] in,
//                      half y[BATCH,PH,PW,F] out, int BATCH, int H, int W, int F, int R, int S, int PAD)
// Sizes:   PH = (H + 2 * PAD - R + 1) / 2, PW = (W + 2 * PAD - S + 1) / 2,
//          WORDS = PW + 4, PITCH = WORDS + (16 + 32 * WORDS - 2 * WORDS) % 32 / 2, ROWS = 2 * PH + STEPS * 2
// Needs:   PH >= 1, PW >= 1, R <= 2 * STEPS, S <= 8, F % 8 == 0
// Launch:  first_layer block=(THREADS) grid=(cdiv(BATCH, IMAGES), cdiv(F, FILTERS)) shared=8 * ROWS * PITCH

#include <cuda_fp16.h>

constexpr int STEPS = 3;      // rows of a filter, two by two
constexpr int FILTERS = 32;   // of a block: four pieces of eight
constexpr int IMAGES = 8;     // of a block, one after the other
constexpr int THREADS = 192;

static_assert(FILTERS == 32, "four lanes hold eight neighbouring filters each");
static_assert(THREADS % 32 == 0, "whole warps");

// sum += a * b for 16 places x 16 steps of k x 8 filters.
__device__ void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two halfs as 32 bits, the first one in the lower.
__device__ unsigned packed(half low, half high)
{
    return __half_as_ushort(low) | static_cast<unsigned>(__half_as_ushort(high)) << 16;
}

extern "C" __global__ void __launch_bounds__(THREADS)
first_layer(const half* __restrict__ x, const half* __restrict__ w, const float* __restrict__ bias,
            half* __restrict__ y, int BATCH, int H, int W, int F, int R, int S, int PAD)
{
    extern __shared__ unsigned copies[];  // the image in pairs of pixels, then once more, one pixel further on
    const int PH = (H + 2 * PAD - R + 1) / 2;
    const int PW = (W + 2 * PAD - S + 1) / 2;
    const int WORDS = PW + 4;             // pairs in a row, as far as windows reach
    const int PITCH = WORDS + (16 + 32 * WORDS - 2 * WORDS) % 32 / 2;  // windows one row further down: 16 banks further
    const int ROWS = 2 * PH + STEPS * 2;
    const int lane = threadIdx.x % 32;
    const int g = lane / 4;               // the thread's rows of a piece: g and g + 8,
    const int t = lane % 4;               // its pair of steps of k, and its two columns of eight
    const int f0 = blockIdx.y * FILTERS;
    const half zero = __float2half(0.0f);

    // Column c of piece j is filter c / 2 * 8 + j * 2 + c % 2: thread t has columns 2 * t and 2 * t + 1 of all pieces.
    unsigned filters[STEPS][4][2];
    #pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            #pragma unroll
            for (int k = 0; k < 2; ++k) {
                const int f = f0 + g / 2 * 8 + j * 2 + g % 2;
                const int r = step * 2 + k;
                const bool exists = f < F && r < R;
                const half* row = w + (f * R + r) * S;
                filters[step][j][k] = packed(exists && 2 * t < S ? row[2 * t] : zero,
                                             exists && 2 * t + 1 < S ? row[2 * t + 1] : zero);
            }
        }
    }
    float more[8];  // the biases of the thread's eight filters
    #pragma unroll
    for (int i = 0; i < 8; ++i) more[i] = f0 + t * 8 + i < F ? bias[f0 + t * 8 + i] : 0.0f;
    // What lies behind a window's row is not multiplied even by zero: it might be infinite.
    const unsigned wanted = 2 * t + 1 < S ? 0xffffffff : 2 * t < S ? 0x0000ffff : 0;

    for (int n = blockIdx.x * IMAGES; n < min(BATCH, (static_cast<int>(blockIdx.x) + 1) * IMAGES); ++n) {
        __syncthreads();  // nobody reads the image before any more
        for (int i = threadIdx.x; i < ROWS * PITCH; i += THREADS) {
            const int row = i / PITCH - PAD;
            const int col = i % PITCH * 2 - PAD;
            half pixel[3];
            #pragma unroll
            for (int k = 0; k < 3; ++k) {
                const bool exists = 0 <= row && row < H && 0 <= col + k;
                pixel[k] = exists ? x[(static_cast<size_t>(n) * H + row) * W + col + k] : zero;  // expect: OOB
            }
            copies[i] = packed(pixel[0], pixel[1]);
            copies[ROWS * PITCH + i] = packed(pixel[1], pixel[2]);
        }
        __syncthreads();
        for (int first = threadIdx.x / 32 * 8; first < PH * PW; first += THREADS / 32 * 8) {  // eight windows a warp
            const int window = min(first + g, PH * PW - 1);
            const unsigned* from = copies + window / PW * 2 * PITCH + window % PW + t;
            float sum[2][4][4] = {};  // rows of the window, pieces of eight filters
            #pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                #pragma unroll
                for (int i = 0; i < 2; ++i) {
                    unsigned a[4];
                    #pragma unroll
                    for (int k = 0; k < 4; ++k) {
                        const int row = i + step * 2 + k / 2;
                        a[k] = from[k % 2 * ROWS * PITCH + row * PITCH] & (step * 2 + k / 2 < R ? wanted : 0);
                    }
                    #pragma unroll
                    for (int j = 0; j < 4; ++j) multiply(sum[i][j], a, filters[step][j][0], filters[step][j][1]);
                }
            }
            half2 means[4];
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                float mean[2];
                #pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const float b = more[j * 2 + e];
                    mean[e] = 0.25f * (fmaxf(sum[0][j][e] + b, 0.0f) + fmaxf(sum[0][j][e + 2] + b, 0.0f)
                                       + fmaxf(sum[1][j][e] + b, 0.0f) + fmaxf(sum[1][j][e + 2] + b, 0.0f));
                }
                means[j] = __floats2half2_rn(mean[0], mean[1]);
            }
            if (first + g < PH * PW && f0 + t * 8 < F) {
                half* to = y + (static_cast<size_t>(n) * PH * PW + first + g) * F + f0 + t * 8;
                *reinterpret_cast<float4*>(to) = *reinterpret_cast<float4*>(means);
            }
        }
    }
}
