// 01_saxpy.cu: z = a * x + y, one thread per element.
// Idea:    a thread finds its element from its block's number and its own number in the block. The last
//          block may reach past the end, so the element is compared with n before memory is touched.
// Limits:  two operations for twelve bytes moved: memory decides the time, arithmetic never does.
// Entry:   saxpy(const float x[n] in, const float y[n] in, float z[n] out, float a, int n)
// Launch:  saxpy block=(BLOCK) grid=(cdiv(n, BLOCK))

constexpr int BLOCK = 256;  // threads in a block

static_assert(BLOCK % 32 == 0, "a warp has 32 lanes; another block size leaves lanes of the last warp idle");

extern "C" __global__ void saxpy(const float* __restrict__ x, const float* __restrict__ y,
                                 float* __restrict__ z, float a, int n)
{
    // BEGIN SOLUTION: find this thread's element, guard it, compute it (about 4 lines)
    // END SOLUTION
}
