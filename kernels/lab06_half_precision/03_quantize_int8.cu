// 03_quantize_int8.cu: X ~ scale * Q with 8-bit integers Q, one scale for each row or one for all of X.
// Idea:    the largest magnitude of a row, or of the whole tensor, becomes 127, and every other element the nearest
//          multiple of scale = largest / 127. Calibration may find that a few elements are far larger than all others:
//          what lies beyond `clip` becomes 127 as well, and the others keep a finer scale.
// Limits:  X is read twice. Both signs get the same range: of a ReLU's output half of it stays empty.
// Entry:   find_largest(const float X[M,K] in, unsigned largest[M] out, int M, int K)
// Entry:   quantize(const float X[M,K] in, const unsigned largest[M] in, float clip, signed char Q[M,K] out,
//                   float scale[M] out, int M, int K)
// Scratch: largest
// Zeroed:  largest
// Launch:  find_largest block=(32, WARPS) grid=(cdiv(M, WARPS))
// Launch:  quantize block=(32, WARPS) grid=(cdiv(M, WARPS))

constexpr int PER_ROW = 1;  // 1: a scale for each row; 0: one for all rows
constexpr int WARPS = 8;    // rows of X in a block, one for each warp
constexpr int MOST = 127;   // the largest integer; -128 would have no counterpart

static_assert(MOST <= 127, "an element of Q has 8 bits");

// The four elements from `from` on; those past `left` are zero. `wide`: they may be loaded as one float4.
__device__ float4 load_quad(const float* from, int left, bool wide)
{
    if (wide) {
        return *reinterpret_cast<const float4*>(from);
    }
    return make_float4(from[0], left > 1 ? from[1] : 0.0f, left > 2 ? from[2] : 0.0f, left > 3 ? from[3] : 0.0f);
}

// x / scale, rounded to the nearest integer; what is beyond the range becomes its end.
__device__ signed char quantized(float x, float inverse)
{
    signed char q = 0;
    // BEGIN SOLUTION: round x * inverse, then keep it between -MOST and MOST (about 1 line)
    // END SOLUTION
    return q;
}

// The bits of a float that is not negative grow as the float does: atomicMax on them finds the largest.
extern "C" __global__ void find_largest(const float* __restrict__ X, unsigned* __restrict__ largest, int M, int K)
{
    const int lane = threadIdx.x;
    const int row = blockIdx.x * WARPS + threadIdx.y;
    if (row >= M) {
        return;  // a whole warp, and no barrier follows
    }
    const float* from = X + static_cast<size_t>(row) * K;
    const bool wide = K % 4 == 0;
    // BEGIN SOLUTION: the largest magnitude of a row by a warp, then atomicMax, for one or all rows (about 11 lines)
    // END SOLUTION
}

extern "C" __global__ void quantize(const float* __restrict__ X, const unsigned* __restrict__ largest, float clip,
                                    signed char* __restrict__ Q, float* __restrict__ scale, int M, int K)
{
    const int lane = threadIdx.x;
    const int row = blockIdx.x * WARPS + threadIdx.y;
    if (row >= M) {
        return;
    }
    const float* from = X + static_cast<size_t>(row) * K;
    signed char* to = Q + static_cast<size_t>(row) * K;
    const bool wide = K % 4 == 0;
    // BEGIN SOLUTION: the row's scale, 0 for a row of zeros; then all of its elements, four a lane (about 18 lines)
    // END SOLUTION
}
