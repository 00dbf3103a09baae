// modulo_tree.cu: right, but every warp stays busy for a few lanes, with a barrier for each step.
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
    for (int stride = 1; stride < BLOCK; stride *= 2) {
        if (t % (2 * stride) == 0) {
            partial[t] += partial[t + stride];  // expect: PERF
        }
        __syncthreads();
    }
    if (t == 0) {
        sums[blockIdx.x] = partial[0];
    }
}
