// 05_histogram.cu: count[b] is how many of the n bytes of x have the value b.
// Idea:    a block counts in a histogram of its own, in shared memory, and adds it to the one in global memory at the
//          end: 256 additions for all that it has seen. In a warp, lanes with the same value find each other by a vote,
//          and one of them adds for all: a sky of one colour costs no more than noise.
// Limits:  the vote costs something where values differ. 256 counters fit a block many times over, 2^16 would not.
// Entry:   histogram(const unsigned char x[n] in, int count[BINS] out, int n)
// Needs:   n >= 1
// Zeroed:  count
// Launch:  histogram block=(BLOCK) grid=(min(cdiv(n, EACH * BLOCK), MOST))

constexpr int BINS = 256;
constexpr int BLOCK = 256;  // threads in a block
constexpr int EACH = 32;    // bytes for each thread, at least: 8192 for a block, 32 for each of its counters
constexpr int MOST = 264;   // blocks that work at the same time, two for each multiprocessor of an H200
constexpr int WARP = 32;
constexpr unsigned ALL = 0xffffffffu;

static_assert(BLOCK % WARP == 0, "all lanes of a warp take part in its votes");
static_assert(EACH * BLOCK >= 32 * BINS && MOST >= 1, "a block sees far more bytes than it has counters");

extern "C" __global__ void histogram(const unsigned char* __restrict__ x, int* __restrict__ count, int n)
{
    __shared__ int own[BINS];
    const int t = threadIdx.x;

    // BEGIN SOLUTION: clear the block's histogram (about 4 lines)
    for (int bin = t; bin < BINS; bin += BLOCK) {
        own[bin] = 0;
    }
    __syncthreads();
    // END SOLUTION

    for (int first = blockIdx.x * BLOCK; first < n; first += gridDim.x * BLOCK) {
        const int i = first + t;
        const int bin = i < n ? x[i] : BINS;  // past the end: a value that nobody counts
        // BEGIN SOLUTION: the first of the lanes with the same value adds their number to the block's (about 4 lines)
        const unsigned same = __match_any_sync(ALL, bin);
        if (bin < BINS && t % WARP == __ffs(same) - 1) {
            atomicAdd(&own[bin], __popc(same));
        }
        // END SOLUTION
    }

    // BEGIN SOLUTION: add what the block has counted to the counters of all (about 6 lines)
    __syncthreads();
    for (int bin = t; bin < BINS; bin += BLOCK) {
        if (own[bin] > 0) {
            atomicAdd(&count[bin], own[bin]);
        }
    }
    // END SOLUTION
}
