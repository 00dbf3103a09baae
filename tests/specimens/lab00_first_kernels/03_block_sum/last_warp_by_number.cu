// last_warp_by_number.cu: the thread with the highest number takes the total, as if its warp came last.
// Entry:   block_sum(const float x[n] in, float sums[cdiv(n, 256)] out, int n)
// Launch:  block_sum block=(256) grid=(cdiv(n, 256))

// expect: WA

extern "C" __global__ void block_sum(const float* __restrict__ x, float* __restrict__ sums, int n)
{
    __shared__ float total;
    const int t = threadIdx.x;
    const int i = blockIdx.x * 256 + t;
    if (t == 0) {
        total = 0.0f;
    }
    __syncthreads();
    float sum = i < n ? x[i] : 0.0f;
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    }
    if (t % 32 == 0) {
        atomicAdd(&total, sum);
    }
    __syncwarp();
    if (t == 255) {
        sums[blockIdx.x] = atomicAdd(&total, 0.0f);
    }
}
