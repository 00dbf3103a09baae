// dense_backward.cu: slopes of 32 images back through a dense layer and the ReLU before it; the sums for its bias.
// Idea:    weights once more, now summed over outputs: images are the product's rows, 64 inputs its columns. A fragment
//          wants pairs of one input from two outputs' rows: a lane loads 16 bytes of four rows, and permuting bytes
//          pairs them. The block's warps have their shares of the outputs.
// From:    lab13_vgg16/05_fc_small_batch_backward.cu
// Limits:  32 images; inputs are a multiple of 64.
// Entry:   backward(const half dy[32,OUT] in, const half w[OUT,IN] in, const half kept[32,IN] in, half dx[32,IN] out,
//                   float sums[IN] inout, int IN, int OUT)
// Needs:   IN % 64 == 0, OUT % 4 == 0, OUT * IN <= 2147483647
// Launch:  backward block=(THREADS) grid=(IN / COLS)

#include <cuda_fp16.h>

constexpr int PASSES = 0;  // 1: no ReLU in front, and no sums
constexpr int IMAGES = 32;
constexpr int COLS = 64;
constexpr int WARPS = 4;
constexpr int THREADS = 32 * WARPS;

union Eight {
    uint4 whole;
    unsigned pairs[4];
};

// d (16 x 8) += a (16 x 16) * b (16 x 8)
__device__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(THREADS) backward(const half* dy, const half* w, const half* kept, half* dx,
                                                               float* sums, int IN, int OUT)
{
    __shared__ float partial[WARPS][IMAGES][COLS];
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int group = lane / 4;
    const int first = blockIdx.x * COLS;
    float d[2][8][4] = {};
    #pragma unroll 2
    for (int top = warp * 16; top < OUT; top += WARPS * 16) {
        const int row = top + lane % 4 * 4;  // the lane's four outputs, of which the first two make a pair
        Eight b[4];
        uint2 a[4] = {};
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            b[i].whole = uint4{};
            if (row >= OUT) continue;
            b[i].whole = *reinterpret_cast<const uint4*>(w + static_cast<long long>(row + i) * IN + first + group * 8);
            a[i] = *reinterpret_cast<const uint2*>(dy + static_cast<long long>(i * 8 + group) * OUT + row);
        }
        const unsigned upper[4] = {a[0].x, a[1].x, a[0].y, a[1].y};
        const unsigned lower[4] = {a[2].x, a[3].x, a[2].y, a[3].y};
        #pragma unroll
        for (int n = 0; n < 8; ++n) {  // the n-th of each lane's eight inputs
            const unsigned which = n % 2 ? 0x7632 : 0x5410;
            const unsigned b0 = __byte_perm(b[0].pairs[n / 2], b[1].pairs[n / 2], which);
            const unsigned b1 = __byte_perm(b[2].pairs[n / 2], b[3].pairs[n / 2], which);
            multiply(d[0][n], upper, b0, b1);
            multiply(d[1][n], lower, b0, b1);
        }
    }
    #pragma unroll
    for (int m = 0; m < 2; ++m) {
        #pragma unroll
        for (int n = 0; n < 8; ++n) {
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
                partial[warp][m * 16 + e / 2 * 8 + group][(lane % 4 * 2 + e % 2) * 8 + n] = d[m][n][e];
            }
        }
    }
    __syncthreads();
    float total = 0.0f;
    const int col = threadIdx.x % COLS;
    for (int image = threadIdx.x / COLS; image < IMAGES; image += THREADS / COLS) {
        float sum = 0.0f;
        #pragma unroll
        for (int other = 0; other < WARPS; ++other) {
            sum += partial[other][image][col];
        }
        const long long at = static_cast<long long>(image) * IN + first + col;
        const half slope = __float2half(PASSES || __hgt(kept[at], __float2half(0.0f)) ? sum : 0.0f);
        dx[at] = slope;
        total += __half2float(slope);
    }
    if (!PASSES) atomicAdd(&sums[first + col], total);
}
