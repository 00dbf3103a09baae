// 01_segmented_sum.cu: sums[s] is the sum of the elements of segment s, for segments of any lengths.
// Idea:    every element knows its segment's number, and segments follow each other. A warp sums 32 neighbours in five
//          steps of shuffles, and takes only what belongs to the same segment. The first lane of each run then holds
//          the run's sum, and only it adds to memory: work follows the elements, however they are cut.
// Limits:  an atomic addition for each run of a warp: one for each element if all segments have length one.
// Entry:   segmented_sum(const float x[n] in, const unsigned segment[n] in, float sums[S] out, int n, int S)
// Needs:   n >= 1, S >= 1
// Zeroed:  sums
// Launch:  segmented_sum block=(BLOCK) grid=(cdiv(n, BLOCK))
// Usual:   S = 1024

constexpr int BLOCK = 256;  // threads in a block, one for each element
constexpr int WARP = 32;
constexpr unsigned ALL = 0xffffffffu;

static_assert(BLOCK % WARP == 0, "all lanes of a warp take part in its shuffles");

extern "C" __global__ void segmented_sum(const float* __restrict__ x, const unsigned* __restrict__ segment,
                                         float* __restrict__ sums, int n, int S)
{
    const int lane = threadIdx.x % WARP;
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    const int own = i < n ? static_cast<int>(segment[i]) : S;  // lanes past the end make a segment of their own
    float sum = i < n ? x[i] : 0.0f;

    // BEGIN SOLUTION: add the lanes that follow, 1, 2, 4, 8, 16 further on, where segments agree (about 7 lines)
    // END SOLUTION

    // BEGIN SOLUTION: the first lane of each run adds the run's sum to sums (about 4 lines)
    // END SOLUTION
}
