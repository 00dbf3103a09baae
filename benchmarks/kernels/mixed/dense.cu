// dense.cu: a dense layer for 32 images, weights and activations in half precision, sums in float32.
// Idea:    weights come once and are all that takes time. mma.sync takes outputs as rows and images as columns; which
//          number of a row is called the first is anybody's choice as long as weights and images agree, so a lane
//          loads 16 bytes of a row and calls them parts of two products' fragments. Nothing goes by way of shared
//          memory but the sums of the block's warps, each of which had its share of the inputs.
// From:    lab13_vgg16/04_fc_small_batch.cu
// Limits:  32 images; inputs are a multiple of 32.
// Entry:   dense(const half x[32,IN] in, const half w[OUT,IN] in, const float bias[OUT] in, half y[32,OUT] out,
//                float scores[32,OUT] out, int IN, int OUT)
// Needs:   IN % 32 == 0, OUT * IN <= 2147483647
// Launch:  dense block=(THREADS) grid=(cdiv(OUT, ROWS))

#include <cuda_fp16.h>

constexpr int LAST = 0;     // 1: scores as float32, without ReLU; 0: activations
constexpr int IMAGES = 32;
constexpr int ROWS = 32;    // outputs of a block: two fragments
constexpr int WARPS = 8;
constexpr int THREADS = 32 * WARPS;
constexpr int AHEAD = 2;    // pieces of 32 inputs that a lane loads together

// d (16 x 8) += a (16 x 16) * b (16 x 8)
__device__ void multiply(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(THREADS) dense(const half* x, const half* w, const float* bias, half* y,
                                                            float* scores, int IN, int OUT)
{
    __shared__ float partial[WARPS][ROWS][IMAGES + 2];
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int group = lane / 4;
    const int first = blockIdx.x * ROWS;
    const uint4* rows[4];
    const uint4* images[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int row = min(first + i * 8 + group, OUT - 1);  // rows past the end are computed in vain
        rows[i] = reinterpret_cast<const uint4*>(w + static_cast<long long>(row) * IN) + lane % 4;
        images[i] = reinterpret_cast<const uint4*>(x + static_cast<long long>(i * 8 + group) * IN) + lane % 4;
    }
    float d[2][4][4] = {};
    const int pieces = IN / 32;
    for (int piece = warp * AHEAD; piece < pieces; piece += WARPS * AHEAD) {
        uint4 a[AHEAD][4];
        uint4 b[AHEAD][4];
        #pragma unroll
        for (int n = 0; n < AHEAD; ++n) {
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                const bool there = piece + n < pieces;
                a[n][i] = there ? rows[i][(piece + n) * 4] : uint4{};
                b[n][i] = there ? images[i][(piece + n) * 4] : uint4{};
            }
        }
        #pragma unroll
        for (int n = 0; n < AHEAD; ++n) {
            #pragma unroll
            for (int m = 0; m < 2; ++m) {
                #pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const uint4& upper = a[n][2 * m];
                    const uint4& lower = a[n][2 * m + 1];
                    multiply(d[m][i], upper.x, lower.x, upper.y, lower.y, b[n][i].x, b[n][i].y);
                    multiply(d[m][i], upper.z, lower.z, upper.w, lower.w, b[n][i].z, b[n][i].w);
                }
            }
        }
    }
    #pragma unroll
    for (int m = 0; m < 2; ++m) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
                partial[warp][m * 16 + e / 2 * 8 + group][i * 8 + lane % 4 * 2 + e % 2] = d[m][i][e];
            }
        }
    }
    __syncthreads();
    for (int number = threadIdx.x; number < ROWS * IMAGES; number += THREADS) {
        const int row = number % ROWS;
        const int image = number / ROWS;
        if (first + row >= OUT) continue;
        float sum = bias[first + row];
        #pragma unroll
        for (int other = 0; other < WARPS; ++other) {
            sum += partial[other][row][image];
        }
        const long long at = static_cast<long long>(image) * OUT + first + row;
        if (LAST) scores[at] = sum;
        else y[at] = __float2half(fmaxf(sum, 0.0f));
    }
}
