// pool_backward.cu: slopes back through 2 x 2 pooling and the ReLU before it, and their sums for a bias's gradient.
// Idea:    the place that was largest is found again from the activations (the first of equals, as PyTorch does): no
//          indices are stored. A ReLU whose output is zero passes nothing. A thread keeps its eight channels over many
//          places and adds up what it passes on; a block adds its sums once.
// From:    lab11_training/03_pool_relu_backward.cu
// Limits:  images of even size; a multiple of 8 channels that divides 2048.
// Entry:   spread(const half dp[BATCH,H/2,W/2,C] in, const half y[BATCH,H,W,C] in, half dy[BATCH,H,W,C] out,
//                 float sums[C] inout, int BATCH, int H, int W, int C)
// Needs:   H % 2 == 0, W % 2 == 0, C % 8 == 0, 2048 % C == 0, BATCH * H * W * (C / 8) <= 2147483647
// Launch:  spread block=(THREADS) grid=(min(cdiv(BATCH * (H / 2) * (W / 2) * (C / 8), THREADS), BLOCKS))

#include <cuda_fp16.h>

constexpr int THREADS = 256;
constexpr int BLOCKS = 1056;  // at most: eight for each multiprocessor of an H100 or H200

union Eight {
    uint4 whole;
    half parts[8];
};

extern "C" __global__ void __launch_bounds__(THREADS) spread(const half* dp, const half* y, half* dy, float* sums,
                                                             int BATCH, int H, int W, int C)
{
    __shared__ float partial[8][THREADS];
    const int chunks = C / 8;
    const int all = BATCH * (H / 2) * (W / 2) * chunks;
    const long long pitch = static_cast<long long>(W) * chunks;
    float sum[8] = {};
    for (int number = blockIdx.x * THREADS + threadIdx.x; number < all; number += gridDim.x * THREADS) {
        const int place = number / chunks;  // THREADS is a multiple of chunks: channels stay the same
        const int row = place / (W / 2);
        const long long at = row * 2 * pitch + place % (W / 2) * 2 * chunks + number % chunks;
        const long long places[4] = {at, at + chunks, at + pitch, at + pitch + chunks};
        Eight values[4];
        Eight slope;
        slope.whole = reinterpret_cast<const uint4*>(dp)[number];
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            values[i].whole = reinterpret_cast<const uint4*>(y)[places[i]];
        }
        #pragma unroll
        for (int c = 0; c < 8; ++c) {
            half best = __float2half(0.0f);
            int winner = 4;  // nobody, where all are zero
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (__hgt(values[i].parts[c], best)) {
                    best = values[i].parts[c];
                    winner = i;
                }
            }
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                values[i].parts[c] = i == winner ? slope.parts[c] : __float2half(0.0f);
            }
            if (winner < 4) sum[c] += __half2float(slope.parts[c]);
        }
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            reinterpret_cast<uint4*>(dy)[places[i]] = values[i].whole;
        }
    }
    #pragma unroll
    for (int c = 0; c < 8; ++c) {
        partial[c][threadIdx.x] = sum[c];
    }
    __syncthreads();
    for (int channel = threadIdx.x; channel < C; channel += THREADS) {
        float total = 0.0f;
        for (int thread = channel / 8; thread < THREADS; thread += chunks) {
            total += partial[channel % 8][thread];
        }
        atomicAdd(&sums[channel], total);
    }
}
