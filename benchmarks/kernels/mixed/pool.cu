// pool.cu: the largest of 2 x 2 places, halfs in NHWC; eight channels a thread.
// From:    lab10_lenet/02_max_pool.cu
// Limits:  images of even size, a multiple of 8 channels.
// Entry:   pool(const half y[BATCH,H,W,C] in, half p[BATCH,H/2,W/2,C] out, int BATCH, int H, int W, int C)
// Needs:   H % 2 == 0, W % 2 == 0, C % 8 == 0, BATCH * H * W * (C / 8) <= 2147483647
// Launch:  pool block=(256) grid=(cdiv(BATCH * (H / 2) * (W / 2) * (C / 8), 256))

#include <cuda_fp16.h>

__device__ uint4 larger(uint4 left, uint4 right)
{
    half2* const own = reinterpret_cast<half2*>(&left);
    const half2* const other = reinterpret_cast<const half2*>(&right);
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        own[i] = __hmax2(own[i], other[i]);
    }
    return left;
}

extern "C" __global__ void pool(const half* y, half* p, int BATCH, int H, int W, int C)
{
    const int chunks = C / 8;
    const int number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= BATCH * (H / 2) * (W / 2) * chunks) return;
    const int place = number / chunks;
    const int row = place / (W / 2);  // over all images
    const uint4* const from = reinterpret_cast<const uint4*>(y)
                              + (static_cast<long long>(row) * 2 * W + place % (W / 2) * 2) * chunks + number % chunks;
    const uint4 above = larger(from[0], from[chunks]);
    const uint4 below = larger(from[static_cast<long long>(W) * chunks], from[static_cast<long long>(W + 1) * chunks]);
    reinterpret_cast<uint4*>(p)[number] = larger(above, below);
}
