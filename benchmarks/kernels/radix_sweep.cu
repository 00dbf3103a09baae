// radix_sweep.cu: lab 15's 07_radix_pass as fast as we know how: keys with their values, sorted by eight bits a pass.
// Idea:    a pass reads and writes everything once. One kernel counts the digits of all passes beforehand; where a
//          block's keys of a digit begin in all of the array, it hears by looking back, as in 04_look_back: a thread for
//          each digit, four blocks at a time. Eight ballots say which lanes of a warp have the same digit, and one lane
//          of each counts them. A block holds some thousand keys, so that its keys of one digit fill whole sectors.
// From:    lab 15's 07_radix_pass
// Entry:   count_digits(const unsigned keys[n] in, int counts[4,256] out, int n)
// Entry:   find_starts(const int counts[4,256] in, int starts[4,256] out)
// Entry:   sweep(const unsigned keys[n] in, const unsigned values[n] in, const int starts[4,256] in,
//                unsigned sorted_keys[n] out, unsigned sorted_values[n] out,
//                unsigned words[cdiv(n, THREADS*ITEMS),256] out, int ticket[1] out, int first, int pass, int n)
// Needs:   n >= 1, n < 1073741824, pass >= 0, pass < 4, first >= 0, first < cdiv(n, THREADS*ITEMS)
// Scratch: counts, starts, words
// Zeroed:  counts, words, ticket
// Launch:  count_digits block=(COUNTERS) grid=(min(cdiv(n, COUNTERS*4), 528))
// Launch:  find_starts block=(256) grid=(4)
// Launch:  sweep block=(THREADS) grid=(cdiv(n, THREADS*ITEMS))
// Usual:   first = 0, pass = 0

#include <cuda/atomic>

constexpr int THREADS = 384;
constexpr int BLOCKS = 2;    // that share an SM
constexpr int ITEMS = 16;    // keys of a thread
constexpr int VALUES = 1;    // 0: keys alone
constexpr int COUNTERS = 512;  // threads of a block that counts
constexpr int DIGITS = 256;
constexpr int LOOKS = 4;     // blocks that a look back asks at once
constexpr int WARP = 32;
constexpr int WARPS = THREADS / WARP;
constexpr int TILE = THREADS * ITEMS;
constexpr unsigned ALL = 0xffffffffu;
constexpr unsigned SUM = 1u << 30;     // a word's highest bits say: the number is that of the tile,
constexpr unsigned PREFIX = 2u << 30;  // or of all tiles up to it; 0: nothing yet
constexpr unsigned NUMBER = SUM - 1;

static_assert(THREADS >= DIGITS && THREADS % WARP == 0, "a thread for each digit, and whole warps");

using Shared = cuda::atomic_ref<unsigned, cuda::thread_scope_device>;

__device__ void tell(unsigned* word, unsigned what) { Shared(*word).store(what, cuda::memory_order_relaxed); }

__device__ unsigned ask(unsigned* word) { return Shared(*word).load(cuda::memory_order_relaxed); }

__device__ unsigned digit_of(unsigned key, int pass) { return key >> 8 * pass & (DIGITS - 1); }

// How many keys have each digit, in all four passes.
extern "C" __global__ void __launch_bounds__(COUNTERS)
count_digits(const unsigned* __restrict__ keys, int* __restrict__ counts, int n)
{
    __shared__ int own[4][DIGITS];
    for (int k = threadIdx.x; k < 4 * DIGITS; k += COUNTERS) {
        own[k / DIGITS][k % DIGITS] = 0;
    }
    __syncthreads();
    const auto count = [&](unsigned key) {
        #pragma unroll
        for (int pass = 0; pass < 4; ++pass) {
            atomicAdd(&own[pass][digit_of(key, pass)], 1);
        }
    };
    const int step = gridDim.x * COUNTERS * 4;
    for (int i = (blockIdx.x * COUNTERS + threadIdx.x) * 4; i < n; i += step) {
        if (i + 4 <= n) {
            const uint4 four = *reinterpret_cast<const uint4*>(keys + i);
            count(four.x);
            count(four.y);
            count(four.z);
            count(four.w);
        } else {
            for (int k = i; k < n; ++k) {
                count(keys[k]);
            }
        }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < 4 * DIGITS; k += COUNTERS) {
        atomicAdd(&counts[k], own[k / DIGITS][k % DIGITS]);
    }
}

// The sum of the first threads' values, one for each digit, up to and with the own one. All threads of a block come.
__device__ int scan_digits(int value)
{
    __shared__ int of_warps[32];
    const int lane = threadIdx.x % WARP;
    const int warp = threadIdx.x / WARP;
    for (int distance = 1; distance < WARP; distance *= 2) {
        const int other = __shfl_up_sync(ALL, value, distance);
        value += lane >= distance ? other : 0;
    }
    if (lane == WARP - 1) {
        of_warps[warp] = value;
    }
    __syncthreads();
    #pragma unroll
    for (int w = 0; w < DIGITS / WARP; ++w) {
        value += w < warp ? of_warps[w] : 0;
    }
    return value;
}

// Where each digit's keys begin when all are sorted by it: a block for each pass.
extern "C" __global__ void __launch_bounds__(DIGITS) find_starts(const int* __restrict__ counts, int* __restrict__ starts)
{
    const int k = blockIdx.x * DIGITS + threadIdx.x;
    const int count = counts[k];
    starts[k] = scan_digits(count) - count;
}

// The lanes of the warp that have the same digit.
__device__ unsigned lanes_with(unsigned digit)
{
    unsigned same = ALL;
    #pragma unroll
    for (int bit = 0; bit < 8; ++bit) {
        const bool one = digit >> bit & 1;
        const unsigned ones = __ballot_sync(ALL, one);
        same &= one ? ones : ~ones;
    }
    return same;
}

// How many keys of one digit the tiles before this one have; says first how many this one has, then how many all have.
__device__ int look_back(unsigned* words, int tile, int sum)
{
    int before = 0;
    bool found = tile == 0;
    for (int last = tile - 1; !found; last -= LOOKS) {
        unsigned word[LOOKS];
        #pragma unroll
        for (int j = 0; j < LOOKS; ++j) {
            word[j] = last - j < 0 ? PREFIX : 0;  // before the first tile there is nothing
        }
        bool missing = true;
        while (missing) {
            #pragma unroll
            for (int j = 0; j < LOOKS; ++j) {
                if (word[j] == 0) word[j] = ask(&words[(last - j) * DIGITS]);
            }
            missing = false;
            #pragma unroll
            for (int j = 0; j < LOOKS; ++j) {
                missing |= word[j] == 0;
            }
        }
        #pragma unroll
        for (int j = 0; j < LOOKS; ++j) {
            before += found ? 0 : word[j] & NUMBER;
            found |= word[j] >= PREFIX;
        }
    }
    if (tile > 0) {
        tell(&words[tile * DIGITS], PREFIX | (before + sum));
    }
    return before;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
sweep(const unsigned* __restrict__ keys, const unsigned* __restrict__ values, const int* __restrict__ starts,
      unsigned* __restrict__ sorted_keys, unsigned* __restrict__ sorted_values, unsigned* words, int* ticket, int first,
      int pass, int n)
{
    // First a counter for each warp and digit, then the tile's keys in their order, then its values.
    __shared__ unsigned space[TILE > WARPS * DIGITS ? TILE : WARPS * DIGITS];
    __shared__ int offset[DIGITS];  // from a key's place in the tile to its place in all of the array
    __shared__ int drawn;
    const int t = threadIdx.x;
    const int lane = t % WARP;
    unsigned* const count = space + t / WARP * DIGITS;
    if (t == 0) {
        drawn = atomicAdd(ticket, 1);
    }
    for (int k = t; k < WARPS * DIGITS; k += THREADS) {
        space[k] = 0;
    }
    __syncthreads();
    const int tile = (drawn + first) % gridDim.x;
    const int inside = min(n - tile * TILE, TILE);

    // A warp has ITEMS * 32 neighbours. Keys past the end are the largest ones, and behind all others: never stored.
    const int i = tile * TILE + t / WARP * (ITEMS * WARP) + lane;
    unsigned key[ITEMS];
    unsigned value[ITEMS];
    #pragma unroll
    for (int r = 0; r < ITEMS; ++r) {
        key[r] = i + r * WARP < n ? keys[i + r * WARP] : ALL;
    }
    if (VALUES) {
        #pragma unroll
        for (int r = 0; r < ITEMS; ++r) {
            value[r] = i + r * WARP < n ? values[i + r * WARP] : 0;
        }
    }

    // How many keys of the same digit its warp has before each key.
    int place[ITEMS];
    #pragma unroll
    for (int r = 0; r < ITEMS; ++r) {
        const unsigned digit = digit_of(key[r], pass);
        const unsigned same = lanes_with(digit);
        const int lower = __popc(same & ((1u << lane) - 1));
        unsigned earlier = 0;
        if (lower == 0) {
            earlier = atomicAdd(&count[digit], __popc(same));
        }
        place[r] = __shfl_sync(ALL, earlier, __ffs(same) - 1) + lower;
    }
    __syncthreads();

    // A thread for each digit: what the warps before each warp have, and where the digit begins in the tile.
    int sum = 0;
    if (t < DIGITS) {
        #pragma unroll
        for (int w = 0; w < WARPS; ++w) {
            const int its = space[w * DIGITS + t];
            space[w * DIGITS + t] = sum;
            sum += its;
        }
        tell(&words[tile * DIGITS + t], (tile > 0 ? SUM : PREFIX) | sum);
    }
    const int begin = scan_digits(sum) - sum;
    if (t < DIGITS) {
        #pragma unroll
        for (int w = 0; w < WARPS; ++w) {
            space[w * DIGITS + t] += begin;
        }
    }
    __syncthreads();
    #pragma unroll
    for (int r = 0; r < ITEMS; ++r) {
        place[r] += count[digit_of(key[r], pass)];
    }
    __syncthreads();  // nobody counts any more
    #pragma unroll
    for (int r = 0; r < ITEMS; ++r) {
        space[place[r]] = key[r];
    }
    if (t < DIGITS) {
        offset[t] = starts[pass * DIGITS + t] + look_back(words + t, tile, sum) - begin;
    }
    __syncthreads();

    // Neighbours in the tile go to neighbours, digit by digit.
    int to[ITEMS];
    #pragma unroll
    for (int r = 0; r < ITEMS; ++r) {
        const int k = t + r * THREADS;
        const unsigned its = space[k];
        to[r] = offset[digit_of(its, pass)] + k;
        if (k < inside) sorted_keys[to[r]] = its;
    }
    if (VALUES) {
        __syncthreads();
        #pragma unroll
        for (int r = 0; r < ITEMS; ++r) {
            space[place[r]] = value[r];
        }
        __syncthreads();
        #pragma unroll
        for (int r = 0; r < ITEMS; ++r) {
            const int k = t + r * THREADS;
            if (k < inside) sorted_values[to[r]] = space[k];
        }
    }
}
