// endless_loop.cu: half / 2 stays 0 for ever.
// Entry:   block_sum(const float x[n] in, float sums[cdiv(n, 256)] out, int n)
// Launch:  block_sum block=(BLOCK) grid=(cdiv(n, BLOCK))

constexpr int BLOCK = 256;
constexpr int WARP = 32;

extern "C" __global__ void block_sum(const float* __restrict__ x, float* __restrict__ sums, int n)
{
    __shared__ float partial[BLOCK];
    const int t = threadIdx.x;
    const int i = blockIdx.x * BLOCK + t;

    partial[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int half = BLOCK / 2; half >= 0; half /= 2) {
        if (t < half) {
            partial[t] += partial[t + half];
        }
        __syncthreads();  // expect: TLE
    }

    if (t < WARP) {
        float sum = partial[t] + partial[t + WARP];
        for (int offset = WARP / 2; offset > 0; offset /= 2) {
            sum += __shfl_down_sync(0xffffffffu, sum, offset);
        }
        if (t == 0) {
            sums[blockIdx.x] = sum;
        }
    }
}
