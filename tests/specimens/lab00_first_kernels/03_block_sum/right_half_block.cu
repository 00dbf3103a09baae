// right_half_block.cu: 128 threads add two elements each while loading; the rest as in the reference.
// Entry:   block_sum(const float x[n] in, float sums[cdiv(n, 256)] out, int n)
// Launch:  block_sum block=(128) grid=(cdiv(n, 256)) shared=512

// expect: AC

extern "C" __global__ void block_sum(const float* __restrict__ x, float* __restrict__ sums, int n)
{
    extern __shared__ float partial[];
    const int t = threadIdx.x;
    const int i = blockIdx.x * 256 + t;
    float sum = (i < n ? x[i] : 0.0f) + (i + 128 < n ? x[i + 128] : 0.0f);
    partial[t] = sum;
    __syncthreads();
    if (t < 32) {
        sum += partial[t + 32] + partial[t + 64] + partial[t + 96];
        for (int lanes = 16; lanes > 0; lanes /= 2) {
            sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
        }
        if (t == 0) {
            sums[blockIdx.x] = sum;
        }
    }
}
