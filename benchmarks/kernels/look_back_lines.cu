// look_back_lines.cu: lab 15's 04_look_back as fast as we know how: y[i] is the sum of x up to and with i.
// Idea:    flag and number are one word of 64 bits: nobody can see the one without the other, and a look back waits for
//          memory once, not twice. Each word has a line of 128 bytes for itself. Side by side, the words that everybody
//          waits for would lie in one or two lines, and each line is served by one slice of the L2 cache: hundreds of
//          warps that ask would keep those waiting who have something to tell.
//          The tile's sum is told before the tile is scanned: when the scan is done, those before have told theirs.
//          A thread holds 48 elements: the more an SM has loaded, the longer its blocks may look back.
// From:    lab 15's 04_look_back
// Entry:   scan(const float x[n] in, float y[n] out, int ticket[1] out,
//               unsigned long long words[cdiv(n, TILE), LINE] out, int first, int n)
// Needs:   n >= 1, first >= 0, first < cdiv(n, TILE)
// Scratch: words
// Zeroed:  ticket, words
// Launch:  scan block=(THREADS) grid=(cdiv(n, TILE))
// Usual:   first = 0

#include <cuda/atomic>

constexpr int THREADS = 512;
constexpr int BLOCKS = 2;                  // that share an SM
constexpr int ROUNDS = 12;                 // float4s of a thread
constexpr int TILE = THREADS * ROUNDS * 4;  // elements that a block scans
constexpr int LINE = 16;                   // words from one tile's to the next one's
constexpr int WARP = 32;
constexpr int WARPS = THREADS / WARP;
constexpr unsigned ALL = 0xffffffffu;
constexpr int NOTHING = 0;  // what a word says: nothing yet,
constexpr int SUM = 1;      // its number is the tile's sum,
constexpr int PREFIX = 2;   // its number is the sum up to the tile's end

using Word = unsigned long long;
using Shared = cuda::atomic_ref<Word, cuda::thread_scope_device>;

__device__ Word word_of(int known, float value) { return static_cast<Word>(known) << 32 | __float_as_uint(value); }

__device__ int known_of(Word word) { return static_cast<int>(word >> 32); }

__device__ float value_of(Word word) { return __uint_as_float(static_cast<unsigned>(word)); }

__device__ void tell(Word* word, Word what) { Shared(*word).store(what, cuda::memory_order_relaxed); }

__device__ Word ask(Word* word) { return Shared(*word).load(cuda::memory_order_relaxed); }

// The sum of the lanes' values, on every lane.
__device__ float sum_of_lanes(float value)
{
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(ALL, value, distance);
    }
    return value;
}

// Four elements from i on, zeros past the end. They are needed once: they need not stay in the caches.
__device__ float4 load_four(const float* __restrict__ x, int i, int n)
{
    if (i + 4 <= n) return __ldcs(reinterpret_cast<const float4*>(x + i));
    return {i < n ? x[i] : 0.0f, i + 1 < n ? x[i + 1] : 0.0f, i + 2 < n ? x[i + 2] : 0.0f, 0.0f};
}

__device__ void store_four(float* y, int i, int n, float4 four)
{
    if (i + 4 <= n) {
        __stcs(reinterpret_cast<float4*>(y + i), four);
    } else {
        if (i < n) y[i] = four.x;
        if (i + 1 < n) y[i + 1] = four.y;
        if (i + 2 < n) y[i + 2] = four.z;
    }
}

__device__ float4 plus(float left, float4 four) { return {left + four.x, left + four.y, left + four.z, left + four.w}; }

// What the warps before this one have, and all of the block, on every thread.
struct Sums {
    float left;
    float all;
};

__device__ Sums sum_tile(const float4 (&own)[ROUNDS])
{
    __shared__ float of_warps[WARPS];
    const int warp = threadIdx.x / WARP;
    float sum = 0.0f;
    #pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        sum += own[round].x + own[round].y + (own[round].z + own[round].w);
    }
    sum = sum_of_lanes(sum);
    if (threadIdx.x % WARP == 0) {
        of_warps[warp] = sum;
    }
    __syncthreads();
    Sums found = {0.0f, 0.0f};
    #pragma unroll
    for (int other = 0; other < WARPS; ++other) {
        found.left += other < warp ? of_warps[other] : 0.0f;
        found.all += of_warps[other];
    }
    return found;
}

// Turns each element of a warp into the sum of the tile up to it, where those before the warp have `left`.
__device__ void scan_warp(float4 (&own)[ROUNDS], float left)
{
    const int lane = threadIdx.x % WARP;
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
        four = plus(left + (lane > 0 ? others : 0.0f), four);
        left += __shfl_sync(ALL, upto, WARP - 1);
    }
}

// The sum of all before the tile, on every lane of the warp that looks back.
__device__ float look_back(Word* words, int tile, float all)
{
    const int lane = threadIdx.x % WARP;
    float before = 0.0f;
    bool found = tile == 0;
    for (int last = tile - 1; !found; last -= WARP) {
        const int k = last - lane;
        Word word = k < 0 ? word_of(PREFIX, 0.0f) : 0;  // before the first tile there is nothing
        do {  // until all 32 tiles have told something
            if (known_of(word) == NOTHING) word = ask(&words[k * LINE]);
        } while (__any_sync(ALL, known_of(word) == NOTHING));
        const unsigned ends = __ballot_sync(ALL, known_of(word) == PREFIX);
        const int nearest = ends ? __ffs(ends) - 1 : WARP - 1;
        before += sum_of_lanes(lane <= nearest ? value_of(word) : 0.0f);
        found = ends != 0;
    }
    if (lane == 0 && tile > 0) {
        tell(&words[tile * LINE], word_of(PREFIX, before + all));
    }
    return before;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
scan(const float* __restrict__ x, float* __restrict__ y, int* ticket, unsigned long long* words, int first, int n)
{
    __shared__ int drawn;
    __shared__ float start;  // the sum of all before the tile
    const int t = threadIdx.x;
    const int lane = t % WARP;
    const int warp = t / WARP;
    if (t == 0) {
        drawn = atomicAdd(ticket, 1);
    }
    __syncthreads();
    const int tile = (drawn + first) % gridDim.x;

    // A warp has ROUNDS * 128 neighbours, 128 in each round: a float4 for each lane.
    const int i = tile * TILE + (warp * ROUNDS * WARP + lane) * 4;
    float4 own[ROUNDS];
    #pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        own[round] = load_four(x, i + round * WARP * 4, n);
    }
    const Sums sums = sum_tile(own);
    if (t == 0) {
        tell(&words[tile * LINE], word_of(tile == 0 ? PREFIX : SUM, sums.all));
    }
    scan_warp(own, sums.left);
    if (warp == 0) {
        const float before = look_back(words, tile, sums.all);
        if (lane == 0) {
            start = before;
        }
    }
    __syncthreads();
    #pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        store_four(y, i + round * WARP * 4, n, plus(start, own[round]));
    }
}
