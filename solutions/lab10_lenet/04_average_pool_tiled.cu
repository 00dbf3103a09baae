// 04_average_pool_tiled.cu: the same through shared memory, so that warps read neighbours.
// Idea:    a block's windows follow each other, and so do the elements of their upper rows, and of their lower ones. The
//          block copies both to shared memory, neighbouring lanes neighbouring elements, and every thread picks its
//          window from there: two elements at a time, which 32 banks serve without conflict.
// From:    03_average_pool_relu.cu
// Limits:  a detour: 03 with loads of eight bytes reads as few sectors, where W is even; so does a layout in which
//          windows are columns of four, lab 08's 08_layout.
// Entry:   average_pool_relu(const float x[BATCH,C,H,W] in, const float bias[C] in, float y[BATCH,C,H / 2,W / 2] out,
//                            int BATCH, int C, int H, int W)
// Sizes:   PH = H / 2, PW = W / 2
// Needs:   H >= 2, W >= 2, BATCH * C * H * W <= 2000000000
// Launch:  average_pool_relu block=(THREADS) grid=(cdiv(BATCH * C * PH * PW, THREADS))

constexpr int THREADS = 256;  // and windows of a block

extern "C" __global__ void average_pool_relu(const float* __restrict__ x, const float* __restrict__ bias,
                                             float* __restrict__ y, int BATCH, int C, int H, int W)
{
    __shared__ float2 upper[THREADS];  // the upper halves of the block's windows, one behind the other
    __shared__ float2 lower[THREADS];
    const int PH = H / 2;
    const int PW = W / 2;
    const int windows = BATCH * C * PH * PW;
    const int first = blockIdx.x * THREADS;  // the block's first window
    const int window = first + threadIdx.x;

    // BEGIN SOLUTION: copy 2 * THREADS elements of upper rows and as many of lower rows (about 12 lines)
    float* const uppers = reinterpret_cast<float*>(upper);
    float* const lowers = reinterpret_cast<float*>(lower);
    for (int i = threadIdx.x; i < 2 * THREADS; i += THREADS) {
        const int w = first + i / 2;  // the window that element i belongs to
        if (w < windows) {
            const int row = (w / (PH * PW) * H + w / PW % PH * 2) * W;
            const int col = w % PW * 2 + i % 2;
            uppers[i] = x[row + col];
            lowers[i] = x[row + W + col];
        }
    }
    __syncthreads();
    // END SOLUTION

    // BEGIN SOLUTION: this thread's window: bias, ReLU, mean (about 7 lines)
    if (window < windows) {
        const float more = bias[window / (PH * PW) % C];
        const float2 a = upper[threadIdx.x];
        const float2 b = lower[threadIdx.x];
        y[window] = 0.25f * (fmaxf(a.x + more, 0.0f) + fmaxf(a.y + more, 0.0f)
                             + fmaxf(b.x + more, 0.0f) + fmaxf(b.y + more, 0.0f));
    }
    // END SOLUTION
}
