// separable_filter.cu: 13 x 13 filter in two passes, along rows and then along columns
// Entry:   rows(const float x[H,W] in, const float weight[13] in, float between[H,W] out, int H, int W)
// Entry:   columns(const float between[H,W] in, const float weight[13] in, float y[H,W] out, int H, int W)
// Launch:  rows block=(64, 4) grid=(cdiv(W, 64), cdiv(H, 4))
// Launch:  columns block=(32, 8) grid=(cdiv(W, 32), cdiv(H, 64))
// Scratch: between

constexpr int R = 6;

extern "C" __global__ void rows(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ between, int H, int W)
{
    __shared__ float line[4][64 + 2 * R];
    const int row = blockIdx.y * 4 + threadIdx.y, left = blockIdx.x * 64 - R;
    for (int t = threadIdx.x; t < 64 + 2 * R; t += 64) {
        const int column = left + t;
        line[threadIdx.y][t] = row < H && column >= 0 && column < W ? x[row * W + column] : 0.0f;
    }
    __syncthreads();
    const int column = blockIdx.x * 64 + threadIdx.x;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k <= 2 * R; ++k) sum += weight[k] * line[threadIdx.y][threadIdx.x + k];
    if (row < H && column < W) between[row * W + column] = sum;
}

extern "C" __global__ void columns(const float* __restrict__ between, const float* __restrict__ weight, float* __restrict__ y, int H, int W)
{
    __shared__ float tile[64 + 2 * R][32];
    const int column = blockIdx.x * 32 + threadIdx.x, top = blockIdx.y * 64;
    for (int t = threadIdx.y; t < 64 + 2 * R; t += 8) {
        const int row = top + t - R;
        tile[t][threadIdx.x] = column < W && row >= 0 && row < H ? between[row * W + column] : 0.0f;
    }
    float w[2 * R + 1];
#pragma unroll
    for (int k = 0; k <= 2 * R; ++k) w[k] = weight[k];
    __syncthreads();
    for (int t = threadIdx.y; t < 64; t += 8) {
        float sum = 0.0f;
#pragma unroll
        for (int k = 0; k <= 2 * R; ++k) sum += w[k] * tile[t + k][threadIdx.x];
        if (top + t < H && column < W) y[(top + t) * W + column] = sum;
    }
}
