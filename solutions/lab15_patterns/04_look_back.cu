// 04_look_back.cu: y[i] is the sum of x up to and with i, over any number of blocks, in one pass over memory.
// Idea:    a block says what it has, twice: the sum of its tile as soon as it knows it, and the sum up to its tile's
//          end as soon as it knows that. Whoever wants to know what lies before its tile looks back: it adds tile sums
//          until it meets a block that knows all before. Nobody waits for a block that has not begun: tiles are
//          numbered by a ticket, in the order in which blocks start, so all earlier ones are at work.
// Limits:  the flag must not be seen before the number that it announces: stored by release, loaded by acquire.
//          `first` is the tile of the block that starts first: 0, but in tests, where blocks are to wait for others.
// Entry:   scan(const float x[n] in, float y[n] out, int ticket[1] out, int flag[cdiv(n, 512)] out,
//               float sum[cdiv(n, 512)] out, float prefix[cdiv(n, 512)] out, int first, int n)
// Needs:   n >= 1, first >= 0, first < cdiv(n, 512)
// Scratch: flag, sum, prefix
// Zeroed:  ticket, flag
// Launch:  scan block=(TILE) grid=(cdiv(n, TILE))
// Usual:   first = 0

#include <cuda/atomic>

constexpr int TILE = 512;  // elements that a block scans, one for each thread
constexpr int WARP = 32;
constexpr int WARPS = TILE / WARP;
constexpr unsigned ALL = 0xffffffffu;
constexpr int NOTHING = 0;  // what a flag says: nothing yet,
constexpr int SUM = 1;      // the tile's sum is in sum[tile],
constexpr int PREFIX = 2;   // the sum up to the tile's end is in prefix[tile]

static_assert(TILE == 512, "the arrays of the header have an element for each 512 elements of x");

using Flag = cuda::atomic_ref<int, cuda::thread_scope_device>;

// Tells all blocks what is known of a tile; what this thread stored before is there when they hear it.
__device__ void tell(int* flag, int known) { Flag(*flag).store(known, cuda::memory_order_release); }

// What a tile's flag says; what was stored before it was told may be read then.
__device__ int ask(int* flag) { return Flag(*flag).load(cuda::memory_order_acquire); }

// The sum of x up to this thread's element, in its tile. (Given.)
__device__ float scan_tile(float sum)
{
    __shared__ float of_warps[WARPS];
    const int lane = threadIdx.x % WARP;
    const int warp = threadIdx.x / WARP;
    for (int distance = 1; distance < WARP; distance *= 2) {
        const float other = __shfl_up_sync(ALL, sum, distance);
        sum += lane >= distance ? other : 0.0f;
    }
    if (lane == WARP - 1) {
        of_warps[warp] = sum;
    }
    __syncthreads();
    float all = lane < WARPS ? of_warps[lane] : 0.0f;
    for (int distance = 1; distance < WARPS; distance *= 2) {
        const float other = __shfl_up_sync(ALL, all, distance);
        all += lane >= distance ? other : 0.0f;
    }
    const float before = __shfl_sync(ALL, all, warp > 0 ? warp - 1 : 0);
    return sum + (warp > 0 ? before : 0.0f);
}

extern "C" __global__ void __launch_bounds__(TILE)
scan(const float* __restrict__ x, float* __restrict__ y, int* ticket, int* flag, float* sum, float* prefix, int first,
     int n)
{
    __shared__ float start;
    const int t = threadIdx.x;

    // BEGIN SOLUTION: one thread draws a number, all learn it; the tile is so many behind first (about 6 lines)
    __shared__ int drawn;
    if (t == 0) {
        drawn = atomicAdd(ticket, 1);
    }
    __syncthreads();
    const int tile = (drawn + first) % gridDim.x;
    // END SOLUTION
    // BEGIN STARTER
    //| const int tile = (blockIdx.x + first) % gridDim.x;
    // END STARTER

    const int i = tile * TILE + t;
    const float own = scan_tile(i < n ? x[i] : 0.0f);

    // BEGIN SOLUTION: the last thread has the tile's sum: tell, look back, tell again, share (about 17 lines)
    if (t == TILE - 1) {
        float before = 0.0f;
        if (tile > 0) {
            sum[tile] = own;
            tell(&flag[tile], SUM);
            for (int k = tile - 1, known = SUM; known != PREFIX; --k) {
                do {
                    known = ask(&flag[k]);
                } while (known == NOTHING);
                before += known == PREFIX ? prefix[k] : sum[k];
            }
        }
        prefix[tile] = before + own;
        tell(&flag[tile], PREFIX);
        start = before;
    }
    __syncthreads();
    // END SOLUTION
    // BEGIN STARTER
    //| if (t == 0) {
    //|     start = 0.0f;
    //| }
    //| __syncthreads();
    // END STARTER

    if (i < n) {
        y[i] = start + own;
    }
}
