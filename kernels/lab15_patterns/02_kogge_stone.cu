// 02_kogge_stone.cu: y[i] is the sum of x up to and with i, begun anew every SPAN elements (an inclusive scan).
// Idea:    every thread holds a sum that ends at its element. It adds the sum that ends `distance` before: then its own
//          covers twice as many elements. After distances 1, 2, 4, ... SPAN / 2 all sums reach back to the start.
// Limits:  log2(SPAN) additions for each element, where one thread alone would need one.
// Entry:   scan(const float x[n] in, float y[n] out, int n)
// Needs:   n >= 1
// Launch:  scan block=(SPAN) grid=(cdiv(n, SPAN))

constexpr int SPAN = 512;  // elements that a block scans, one for each thread

static_assert((SPAN & (SPAN - 1)) == 0 && SPAN <= 1024, "distances double up to SPAN; a block has at most 1024");

extern "C" __global__ void __launch_bounds__(SPAN)
scan(const float* __restrict__ x, float* __restrict__ y, int n)
{
    __shared__ float tile[2][SPAN];  // one is read while the other is written: a barrier a step is enough
    const int t = threadIdx.x;
    const int i = blockIdx.x * SPAN + t;
    float sum = i < n ? x[i] : 0.0f;

    // BEGIN SOLUTION: share the sum, then add the one that ends `distance` before, for 1, 2, 4, ... (about 12 lines)
    // END SOLUTION

    if (i < n) {
        y[i] = sum;
    }
}
