// 01_online_softmax.cu: y = exp(x) divided by the sum of exp(x) in its row, for rows of any length.
// Idea:    the largest score and the sum of exp(score - largest) are one thing: a pair. Two pairs of parts of a row
//          make the pair of both, in any order and however bracketed: the sum that belongs to the smaller of the two
//          largest shrinks by exp(smaller - larger). So threads, warps and blocks may share a row as they like, and
//          none of them has to know the row's largest score before it begins.
// Limits:  x is read twice: once for the pair, and once more for the quotients.
// Entry:   softmax(const float x[ROWS,COLS] in, float y[ROWS,COLS] out, int ROWS, int COLS)
// Launch:  softmax block=(THREADS) grid=(ROWS)

constexpr int THREADS = 256;  // share a row
constexpr int WARP = 32;
constexpr int WARPS = THREADS / WARP;
constexpr unsigned ALL = 0xffffffffu;

static_assert(THREADS % WARP == 0 && WARPS <= WARP, "one warp joins the pairs of all");

// What is known of a part of a row.
struct Pair {
    float largest;  // of its scores: minus infinity, if there are none or all are masked,
    float sum;      // and the sum of exp(score - largest)
};

// The pair of two parts together. A part that has nothing adds nothing: minus infinity less minus infinity is no number.
__device__ Pair join(Pair a, Pair b)
{
    Pair both = a;
    // BEGIN SOLUTION: the larger largest; each sum times exp(its largest - the larger one), unless it is 0 (about 4 lines)
    both.largest = fmaxf(a.largest, b.largest);
    const float of_a = a.sum > 0.0f ? a.sum * expf(a.largest - both.largest) : 0.0f;
    const float of_b = b.sum > 0.0f ? b.sum * expf(b.largest - both.largest) : 0.0f;
    both.sum = of_a + of_b;
    // END SOLUTION
    return both;
}

// The pair of all lanes' pairs, in every lane.
__device__ Pair join_warp(Pair own)
{
    // BEGIN SOLUTION: five rounds of shuffles (about 5 lines)
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        const Pair other = {__shfl_xor_sync(ALL, own.largest, distance), __shfl_xor_sync(ALL, own.sum, distance)};
        own = join(own, other);
    }
    // END SOLUTION
    return own;
}

extern "C" __global__ void __launch_bounds__(THREADS)
softmax(const float* __restrict__ x, float* __restrict__ y, int ROWS, int COLS)
{
    __shared__ Pair of_warps[WARPS];
    const int t = threadIdx.x;
    const float* scores = x + static_cast<size_t>(blockIdx.x) * COLS;
    float* quotients = y + static_cast<size_t>(blockIdx.x) * COLS;
    const Pair nothing = {-INFINITY, 0.0f};
    Pair row = nothing;

    // BEGIN SOLUTION: this thread's scores t, t + THREADS, ...; then its warp's, then all warps' (about 12 lines)
    for (int i = t; i < COLS; i += THREADS) {
        const Pair one = {scores[i], scores[i] > -INFINITY ? 1.0f : 0.0f};
        row = join(row, one);
    }
    row = join_warp(row);
    if (t % WARP == 0) {
        of_warps[t / WARP] = row;
    }
    __syncthreads();
    row = join_warp(t % WARP < WARPS ? of_warps[t % WARP] : Pair{-INFINITY, 0.0f});
    // END SOLUTION

    for (int i = t; i < COLS; i += THREADS) {
        quotients[i] = expf(scores[i] - row.largest) / row.sum;
    }
}
