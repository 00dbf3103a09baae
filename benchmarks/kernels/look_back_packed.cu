// look_back_packed.cu: lab 15's scan with flag and number in one word of 64 bits: a look back waits for memory once, not
// twice. What the step's reference leaves on the table; `words` [tiles] and `ticket` [1] begin as zeros.

#include <cuda/atomic>

constexpr int THREADS = 256;
constexpr int ROUNDS = 4;                  // float4s of a thread
constexpr int TILE = THREADS * ROUNDS * 4;  // elements that a block scans
constexpr int WARP = 32;
constexpr int WARPS = THREADS / WARP;
constexpr unsigned ALL = 0xffffffffu;
constexpr int NOTHING = 0;  // what a word says: nothing yet,
constexpr int SUM = 1;      // its number is the tile's sum,
constexpr int PREFIX = 2;   // its number is the sum up to the tile's end

using Word = unsigned long long;
using Shared = cuda::atomic_ref<Word, cuda::thread_scope_device>;

// What is known of a tile, and the number, in one word: nobody can see the one without the other.
__device__ void tell(Word* word, int known, float value)
{
    const Word both = static_cast<Word>(known) << 32 | __float_as_uint(value);
    Shared(*word).store(both, cuda::memory_order_relaxed);
}

__device__ Word ask(Word* word) { return Shared(*word).load(cuda::memory_order_relaxed); }

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

// Turns each element of a tile into the sum of the tile up to it; returns the sum of all, on every thread.
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
scan(const float* __restrict__ x, float* __restrict__ y, int* ticket, Word* words, int n)
{
    __shared__ float start;  // the sum of all before the tile
    const int t = threadIdx.x;
    const int lane = t % WARP;
    const int warp = t / WARP;

    __shared__ int drawn;
    if (t == 0) {
        drawn = atomicAdd(ticket, 1);
    }
    __syncthreads();
    const int tile = drawn;

    // A warp has ROUNDS * 128 neighbours, 128 in each round: a float4 for each lane.
    const int i = tile * TILE + (warp * ROUNDS * WARP + lane) * 4;
    float4 own[ROUNDS];
    #pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        own[round] = load_four(x, i + round * WARP * 4, n);
    }
    const float all = scan_tile(own);

    if (warp == 0) {
        float before = 0.0f;
        if (tile > 0) {
            if (lane == 0) {
                tell(&words[tile], SUM, all);
            }
            bool found = false;
            for (int last = tile - 1; !found; last -= WARP) {
                const int k = last - lane;
                Word word = k < 0 ? static_cast<Word>(PREFIX) << 32 : 0;  // before the first tile there is nothing
                do {  // until all 32 tiles have told something
                    if (word >> 32 == NOTHING) word = ask(&words[k]);
                } while (__any_sync(ALL, word >> 32 == NOTHING));
                const int known = static_cast<int>(word >> 32);
                const unsigned ends = __ballot_sync(ALL, known == PREFIX);
                const int nearest = ends ? __ffs(ends) - 1 : WARP - 1;
                const float part = __uint_as_float(static_cast<unsigned>(word));
                before += sum_of_lanes(lane <= nearest ? part : 0.0f);
                found = ends != 0;
            }
        }
        if (lane == 0) {
            tell(&words[tile], PREFIX, before + all);
            start = before;
        }
    }
    __syncthreads();

    #pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        const float4 four = own[round];
        store_four(y, i + round * WARP * 4, n, {start + four.x, start + four.y, start + four.z, start + four.w});
    }
}
