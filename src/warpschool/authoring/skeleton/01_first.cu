// 01_first.cu: y = a * x, one thread per element. Replace this by your own first idea.
// Idea:    a thread finds its element, and the threads past the end do nothing.
// Limits:  one operation for eight bytes moved: memory decides the time.
// Entry:   scale(const float x[n] in, float y[n] out, float a, int n)
// Launch:  scale block=(BLOCK) grid=(cdiv(n, BLOCK))

constexpr int BLOCK = 256;  // threads in a block

static_assert(BLOCK % 32 == 0, "a warp has 32 lanes; another block size leaves lanes of the last warp idle");

extern "C" __global__ void scale(const float* __restrict__ x, float* __restrict__ y, float a, int n)
{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    // BEGIN SOLUTION: guard the element and compute it (about 3 lines)
    if (i < n) {
        y[i] = a * x[i];
    }
    // END SOLUTION
}
