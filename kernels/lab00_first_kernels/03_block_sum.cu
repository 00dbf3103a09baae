// 03_block_sum.cu: sums[b] is the sum of 256 elements of x, from x[256 * b] on.
// Idea:    pairs are added in shared memory, with a barrier after each halving, until one warp can hold the
//          rest; that warp adds its 32 lanes through shuffles, which need neither shared memory nor barriers.
// Limits:  one sum per block is left: the host, or a second launch, adds those.
// Entry:   block_sum(const float x[n] in, float sums[cdiv(n, 256)] out, int n)
// Launch:  block_sum block=(BLOCK) grid=(cdiv(n, BLOCK))

constexpr int BLOCK = 256;  // threads in a block: one for each element of its sum
constexpr int WARP = 32;

static_assert((BLOCK & (BLOCK - 1)) == 0, "every step halves the block, so its size is a power of two");
static_assert(BLOCK >= 2 * WARP, "the last warp adds the two halves that are left");

extern "C" __global__ void block_sum(const float* __restrict__ x, float* __restrict__ sums, int n)
{
    __shared__ float partial[BLOCK];
    const int t = threadIdx.x;
    const int i = blockIdx.x * BLOCK + t;

    // BEGIN SOLUTION: load one element a thread, then halve until 2 * WARP partial sums are left (about 8 lines)
    // END SOLUTION

    // BEGIN SOLUTION: one warp adds the rest with __shfl_down_sync, its lane 0 writes the sum (about 9 lines)
    // END SOLUTION
}
