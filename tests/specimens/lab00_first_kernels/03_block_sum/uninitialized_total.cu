// uninitialized_total.cu: adds to a shared total that nobody set to zero.
// Entry:   block_sum(const float x[n] in, float sums[cdiv(n, 256)] out, int n)
// Launch:  block_sum block=(BLOCK) grid=(cdiv(n, BLOCK))

constexpr int BLOCK = 256;
constexpr int WARP = 32;

extern "C" __global__ void block_sum(const float* __restrict__ x, float* __restrict__ sums, int n)
{
    __shared__ float total;
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    atomicAdd(&total, i < n ? x[i] : 0.0f);  // expect: UNINIT
    __syncthreads();
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = total;
    }
}
