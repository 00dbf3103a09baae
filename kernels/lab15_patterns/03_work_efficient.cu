// 03_work_efficient.cu: the same scan with fewer than three additions for each element.
// Idea:    Blelloch's scan goes up a tree of sums, as a reduction does, and comes down again: every node hands what
//          lies before it to its left half, and that plus the left half's sum to its right half. Up and down, each of
//          the SPAN - 1 inner nodes adds once.
// From:    02_kogge_stone.cu
// Limits:  twice as many steps, in most of which few threads work. A gap after each 32 words keeps the tree's strides,
//          all of them powers of two, out of one bank.
// Entry:   scan(const float x[n] in, float y[n] out, int n)
// Needs:   n >= 1
// Launch:  scan block=(THREADS) grid=(cdiv(n, SPAN))

constexpr int SPAN = 512;  // elements that a block scans, two for each thread
constexpr int THREADS = SPAN / 2;
constexpr int BANKS = 32;

static_assert((SPAN & (SPAN - 1)) == 0 && THREADS <= 1024, "the tree is a full one; a block has 1024 threads at most");
static_assert(THREADS % BANKS == 0, "a block has whole warps");

// Where element i stands in shared memory: one word is left free after each 32.
__device__ int place(int i) { return i + i / BANKS; }

extern "C" __global__ void __launch_bounds__(THREADS)
scan(const float* __restrict__ x, float* __restrict__ y, int n)
{
    __shared__ float tile[SPAN + SPAN / BANKS];
    const int t = threadIdx.x;
    const int low = blockIdx.x * SPAN + t;
    const int high = low + THREADS;
    const float own_low = low < n ? x[low] : 0.0f;
    const float own_high = high < n ? x[high] : 0.0f;
    tile[place(t)] = own_low;
    tile[place(t + THREADS)] = own_high;

    // BEGIN SOLUTION: up: the right child becomes the sum of both, 1, 2, ... SPAN / 2 elements apart (about 6 lines)
    // END SOLUTION

    // BEGIN SOLUTION: down: clear the root, then left gets the node's value, right that plus left's (about 14 lines)
    // END SOLUTION

    // The tree leaves the sum of all before an element; its own belongs to it, too.
    if (low < n) {
        y[low] = tile[place(t)] + own_low;
    }
    if (high < n) {
        y[high] = tile[place(t + THREADS)] + own_high;
    }
}
