// right_shuffles_first.cu: every warp adds its lanes, then the first warp adds the warps.
// Entry:   block_sum(const float x[n] in, float sums[cdiv(n, 256)] out, int n)
// Launch:  block_sum block=(256) grid=(cdiv(n, 256))

// expect: AC

__device__ float warp_sum(float value, unsigned mask, int width)
{
    for (int offset = width / 2; offset > 0; offset /= 2) {
        value += __shfl_down_sync(mask, value, offset, width);
    }
    return value;
}

extern "C" __global__ void block_sum(const float* __restrict__ x, float* __restrict__ sums, int n)
{
    __shared__ float of_warp[8];
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float sum = warp_sum(i < n ? x[i] : 0.0f, 0xffffffffu, 32);
    if (threadIdx.x % 32 == 0) {
        of_warp[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x < 8) {
        const float total = warp_sum(of_warp[threadIdx.x], 0xffu, 8);
        if (threadIdx.x == 0) {
            sums[blockIdx.x] = total;
        }
    }
}
