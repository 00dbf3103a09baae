// 06_compaction.cu: y begins with those elements of x that are larger than limit, in their order; zeros follow.
// Idea:    an element's place is the number of kept elements before it, an exclusive scan of zeros and ones. Within a
//          warp a vote gives all 32 of them as one word, and counting its lower bits is the scan. Between warps and
//          blocks only their numbers are scanned.
// Limits:  x is read twice, since a block's start is known only when all blocks before it have counted. With step 04's
//          look-back once would be enough.
// Entry:   count_kept(const float x[n] in, float limit, int kept[cdiv(n, 256)] out, int n)
// Entry:   find_starts(const int kept[cdiv(n, 256)] in, int start[cdiv(n, 256)] out, int n)
// Entry:   compact(const float x[n] in, float limit, const int start[cdiv(n, 256)] in, float y[n] out, int n)
// Needs:   n >= 1
// Scratch: kept, start
// Zeroed:  y
// Launch:  count_kept block=(BLOCK) grid=(cdiv(n, BLOCK))
// Launch:  find_starts block=(1024) grid=(1)
// Launch:  compact block=(BLOCK) grid=(cdiv(n, BLOCK))
// Usual:   limit = 0

constexpr int BLOCK = 256;  // threads in a block, one for each element
constexpr int WARP = 32;
constexpr int WARPS = BLOCK / WARP;
constexpr unsigned ALL = 0xffffffffu;

static_assert(BLOCK == 256, "the arrays of the header have an element for each 256 elements of x");

extern "C" __global__ void count_kept(const float* __restrict__ x, float limit, int* __restrict__ kept, int n)
{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    const bool keep = i < n && x[i] > limit;
    // BEGIN SOLUTION: how many threads of the block keep theirs (about 4 lines)
    const int number = __syncthreads_count(keep);
    if (threadIdx.x == 0) {
        kept[blockIdx.x] = number;
    }
    // END SOLUTION
}

// One block walks over the numbers of all blocks, 1024 at a time: start[b] is the sum of kept before b. (Given.)
extern "C" __global__ void find_starts(const int* __restrict__ kept, int* __restrict__ start, int n)
{
    __shared__ int of_warps[WARP];
    const int lane = threadIdx.x % WARP;
    const int warp = threadIdx.x / WARP;
    const int blocks = (n + BLOCK - 1) / BLOCK;
    int before = 0;
    for (int first = 0; first < blocks; first += 1024) {
        const int b = first + threadIdx.x;
        const int own = b < blocks ? kept[b] : 0;
        int sum = own;
        for (int distance = 1; distance < WARP; distance *= 2) {
            const int other = __shfl_up_sync(ALL, sum, distance);
            sum += lane >= distance ? other : 0;
        }
        if (lane == WARP - 1) {
            of_warps[warp] = sum;
        }
        __syncthreads();
        int all = of_warps[lane];
        for (int distance = 1; distance < WARP; distance *= 2) {
            const int other = __shfl_up_sync(ALL, all, distance);
            all += lane >= distance ? other : 0;
        }
        const int earlier = __shfl_sync(ALL, all, warp > 0 ? warp - 1 : 0);
        if (b < blocks) {
            start[b] = before + (warp > 0 ? earlier : 0) + sum - own;
        }
        before += __shfl_sync(ALL, all, WARP - 1);
        __syncthreads();  // of_warps is written anew
    }
}

extern "C" __global__ void compact(const float* __restrict__ x, float limit, const int* __restrict__ start,
                                   float* __restrict__ y, int n)
{
    __shared__ int of_warps[WARPS];
    const int lane = threadIdx.x % WARP;
    const int warp = threadIdx.x / WARP;
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    const float own = i < n ? x[i] : 0.0f;
    const bool keep = i < n && own > limit;

    // BEGIN SOLUTION: vote; each warp tells the block how many elements it keeps (about 5 lines)
    const unsigned vote = __ballot_sync(ALL, keep);
    if (lane == 0) {
        of_warps[warp] = __popc(vote);
    }
    __syncthreads();
    // END SOLUTION

    // BEGIN SOLUTION: store behind the block's start, the warps and the lanes before this one (about 7 lines)
    int place = start[blockIdx.x] + __popc(vote & ((1u << lane) - 1));
    for (int w = 0; w < warp; ++w) {
        place += of_warps[w];
    }
    if (keep) {
        y[place] = own;
    }
    // END SOLUTION
}
