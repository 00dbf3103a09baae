// 04_look_back.cu: y[i] is the sum of x up to and with i, over any number of blocks, in one pass over memory.
// Idea:    a block says what it has, twice: the sum of its tile as soon as it knows it, and the sum up to its tile's
//          end as soon as it knows that. Whoever wants to know what lies before its tile looks back: it adds tile sums
//          until it meets a block that knows all before. 32 lanes look at 32 tiles at once: one after the other would
//          wait for the memory each time. Nobody waits for a block that has not begun: tiles are numbered by a ticket,
//          in the order in which blocks start, so all earlier ones are at work.
//          A tile is large: each look back costs its way to memory and back, whatever the tile holds.
// Limits:  the flag must not be seen before the number that it announces: stored by release, loaded by acquire.
//          `first` is the tile of the block that starts first: 0, but in tests, where blocks are to wait for others.
// Entry:   scan(const float x[n] in, float y[n] out, int ticket[1] out, int flag[cdiv(n, 4096)] out,
//               float sum[cdiv(n, 4096)] out, float prefix[cdiv(n, 4096)] out, int first, int n)
// Needs:   n >= 1, first >= 0, first < cdiv(n, 4096)
// Scratch: flag, sum, prefix
// Zeroed:  ticket, flag
// Launch:  scan block=(THREADS) grid=(cdiv(n, TILE))
// Usual:   first = 0

#include <cuda/atomic>

constexpr int THREADS = 256;
constexpr int ROUNDS = 4;                  // float4s of a thread
constexpr int TILE = THREADS * ROUNDS * 4;  // elements that a block scans
constexpr int WARP = 32;
constexpr int WARPS = THREADS / WARP;
constexpr unsigned ALL = 0xffffffffu;
constexpr int NOTHING = 0;  // what a flag says: nothing yet,
constexpr int SUM = 1;      // the tile's sum is in sum[tile],
constexpr int PREFIX = 2;   // the sum up to the tile's end is in prefix[tile]

static_assert(TILE == 4096, "the arrays of the header have an element for each 4096 elements of x");

using Flag = cuda::atomic_ref<int, cuda::thread_scope_device>;

// Tells all blocks what is known of a tile; what this thread stored before is there when they hear it.
__device__ void tell(int* flag, int known) { Flag(*flag).store(known, cuda::memory_order_release); }

// What a tile's flag says; what was stored before it was told may be read then.
__device__ int ask(int* flag) { return Flag(*flag).load(cuda::memory_order_acquire); }

// The sum of the lanes' values, on every lane.
__device__ float sum_of_lanes(float value)
{
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(ALL, value, distance);
    }
    return value;
}

// Four elements from i on, zeros past the end.
__device__ float4 load_four(const float* __restrict__ x, int i, int n)
{
    if (i + 4 <= n) return *reinterpret_cast<const float4*>(x + i);
    return {i < n ? x[i] : 0.0f, i + 1 < n ? x[i + 1] : 0.0f, i + 2 < n ? x[i + 2] : 0.0f, 0.0f};
}

__device__ void store_four(float* y, int i, int n, float4 four)
{
    if (i + 4 <= n) {
        *reinterpret_cast<float4*>(y + i) = four;
    } else {
        if (i < n) y[i] = four.x;
        if (i + 1 < n) y[i + 1] = four.y;
        if (i + 2 < n) y[i + 2] = four.z;
    }
}

// Turns each element of a tile into the sum of the tile up to it; returns the sum of all, on every thread. (Given.)
__device__ float scan_tile(float4 (&own)[ROUNDS])
{
    __shared__ float of_warps[WARPS];
    const int lane = threadIdx.x % WARP;
    const int warp = threadIdx.x / WARP;
    float before = 0.0f;  // what the warp has before this round
    #pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        float4& four = own[round];
        four.y += four.x;
        four.z += four.y;
        four.w += four.z;
        float upto = four.w;
        for (int distance = 1; distance < WARP; distance *= 2) {
            const float other = __shfl_up_sync(ALL, upto, distance);
            upto += lane >= distance ? other : 0.0f;
        }
        const float others = __shfl_up_sync(ALL, upto, 1);
        const float left = before + (lane > 0 ? others : 0.0f);
        four = {left + four.x, left + four.y, left + four.z, left + four.w};
        before += __shfl_sync(ALL, upto, WARP - 1);
    }
    if (lane == 0) {
        of_warps[warp] = before;
    }
    __syncthreads();
    float left = 0.0f;  // what the warps before this one have
    float all = 0.0f;
    #pragma unroll
    for (int other = 0; other < WARPS; ++other) {
        left += other < warp ? of_warps[other] : 0.0f;
        all += of_warps[other];
    }
    #pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        float4& four = own[round];
        four = {left + four.x, left + four.y, left + four.z, left + four.w};
    }
    return all;
}

extern "C" __global__ void __launch_bounds__(THREADS)
scan(const float* __restrict__ x, float* __restrict__ y, int* ticket, int* flag, float* sum, float* prefix, int first,
     int n)
{
    __shared__ float start;  // the sum of all before the tile
    const int t = threadIdx.x;
    const int lane = t % WARP;
    const int warp = t / WARP;

    // BEGIN SOLUTION: one thread draws a number, all learn it; the tile is so many behind first (about 6 lines)
    const int tile = (blockIdx.x + first) % gridDim.x;
    // END SOLUTION

    // A warp has ROUNDS * 128 neighbours, 128 in each round: a float4 for each lane.
    const int i = tile * TILE + (warp * ROUNDS * WARP + lane) * 4;
    float4 own[ROUNDS];
    #pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        own[round] = load_four(x, i + round * WARP * 4, n);
    }
    const float all = scan_tile(own);

    // BEGIN SOLUTION: the first warp has the tile's sum: tell, look back, tell again, share (about 25 lines)
    if (t == 0) {
        start = 0.0f;
    }
    __syncthreads();
    // END SOLUTION

    #pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        const float4 four = own[round];
        store_four(y, i + round * WARP * 4, n, {start + four.x, start + four.y, start + four.z, start + four.w});
    }
}
