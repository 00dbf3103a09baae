// 07_radix_pass.cu: keys with their values, sorted by four bits of the key; equals stay in their order (stable).
// Idea:    a histogram says how many keys of each digit a block has, a scan where each block's keys of each digit
//          begin, and a compaction for each digit at once brings them there. Within its block a key is first put in
//          order in shared memory: then neighbours go to neighbours, and a warp's stores touch few sectors.
// Limits:  one pass for each four bits: eight for 32. Each pass reads the keys twice and moves all once.
// Entry:   count_digits(const unsigned keys[n] in, int shift, int counts[16,cdiv(n, 256)] out, int n)
// Entry:   find_starts(const int counts[16,cdiv(n, 256)] in, int starts[16,cdiv(n, 256)] out, int n)
// Entry:   move(const unsigned keys[n] in, const int values[n] in, int shift, const int starts[16,cdiv(n, 256)] in,
//               unsigned sorted_keys[n] out, int sorted_values[n] out, int n)
// Needs:   n >= 1, shift >= 0, shift <= 28
// Scratch: counts, starts
// Launch:  count_digits block=(BLOCK) grid=(cdiv(n, BLOCK))
// Launch:  find_starts block=(1024) grid=(1)
// Launch:  move block=(BLOCK) grid=(cdiv(n, BLOCK))
// Usual:   shift = 4

constexpr int BLOCK = 256;  // threads in a block, one for each key
constexpr int DIGITS = 16;
constexpr int WARP = 32;
constexpr int WARPS = BLOCK / WARP;
constexpr int ROW = DIGITS + 4;  // eight rows of 20 words begin in banks that are multiples of 4, each another
constexpr unsigned ALL = 0xffffffffu;

static_assert(BLOCK == 256, "the arrays of the header have a column for each 256 keys");

// The four bits from `shift` on; for a key past the end one more than there are.
__device__ int digit_of(unsigned key, int shift, bool inside) { return inside ? (key >> shift) % DIGITS : DIGITS; }

// The lanes that are lower than this one.
__device__ unsigned lower_lanes() { return (1u << threadIdx.x % WARP) - 1; }

// How many keys of each digit each warp of the block has. (Given.)
__device__ void count_in_warps(int (*count)[ROW], int digit, unsigned same)
{
    for (int k = threadIdx.x; k < WARPS * ROW; k += BLOCK) {
        count[k / ROW][k % ROW] = 0;
    }
    __syncthreads();
    if (digit < DIGITS && (same & lower_lanes()) == 0) {  // the first lane of those with this digit
        count[threadIdx.x / WARP][digit] = __popc(same);
    }
    __syncthreads();
}

extern "C" __global__ void count_digits(const unsigned* __restrict__ keys, int shift, int* __restrict__ counts, int n)
{
    __shared__ int count[WARPS][ROW];
    const int t = threadIdx.x;
    const int i = blockIdx.x * BLOCK + t;
    const int digit = digit_of(i < n ? keys[i] : 0, shift, i < n);
    count_in_warps(count, digit, __match_any_sync(ALL, digit));
    // BEGIN SOLUTION: one thread for each digit adds up the warps' numbers: counts[digit][block] (about 7 lines)
    // END SOLUTION
}

// Exclusive sums over all of counts, row by row: digit 0 of all blocks, digit 1 of all blocks, ... (Given.)
extern "C" __global__ void find_starts(const int* __restrict__ counts, int* __restrict__ starts, int n)
{
    __shared__ int of_warps[WARP];
    const int lane = threadIdx.x % WARP;
    const int warp = threadIdx.x / WARP;
    const int all = (n + BLOCK - 1) / BLOCK * DIGITS;
    int before = 0;
    for (int first = 0; first < all; first += 1024) {
        const int k = first + threadIdx.x;
        const int own = k < all ? counts[k] : 0;
        int sum = own;
        for (int distance = 1; distance < WARP; distance *= 2) {
            const int other = __shfl_up_sync(ALL, sum, distance);
            sum += lane >= distance ? other : 0;
        }
        if (lane == WARP - 1) {
            of_warps[warp] = sum;
        }
        __syncthreads();
        int ends = of_warps[lane];
        for (int distance = 1; distance < WARP; distance *= 2) {
            const int other = __shfl_up_sync(ALL, ends, distance);
            ends += lane >= distance ? other : 0;
        }
        const int earlier = __shfl_sync(ALL, ends, warp > 0 ? warp - 1 : 0);
        if (k < all) {
            starts[k] = before + (warp > 0 ? earlier : 0) + sum - own;
        }
        before += __shfl_sync(ALL, ends, WARP - 1);
        __syncthreads();  // of_warps is written anew
    }
}

// Makes of numbers of keys where they begin in the block: digit by digit, and within a digit warp by warp. (Given.)
__device__ void scan_in_block(int (*count)[ROW], int* of_warps)
{
    const int t = threadIdx.x;
    int* cell = &count[t % WARPS][t / WARPS % DIGITS];
    const int own = t < WARPS * DIGITS ? *cell : 0;
    int sum = own;
    for (int distance = 1; distance < WARP; distance *= 2) {
        const int other = __shfl_up_sync(ALL, sum, distance);
        sum += t % WARP >= distance ? other : 0;
    }
    if (t % WARP == WARP - 1) {
        of_warps[t / WARP] = sum;
    }
    __syncthreads();
    for (int w = 0; w < t / WARP; ++w) {
        sum += of_warps[w];
    }
    if (t < WARPS * DIGITS) {
        *cell = sum - own;
    }
    __syncthreads();
}

extern "C" __global__ void move(const unsigned* __restrict__ keys, const int* __restrict__ values, int shift,
                                const int* __restrict__ starts, unsigned* __restrict__ sorted_keys,
                                int* __restrict__ sorted_values, int n)
{
    __shared__ int count[WARPS][ROW];
    __shared__ int of_warps[WARPS];
    __shared__ unsigned block_keys[BLOCK];
    __shared__ int block_values[BLOCK];
    const int t = threadIdx.x;
    const int first = blockIdx.x * BLOCK;
    const bool inside = first + t < n;
    const unsigned key = inside ? keys[first + t] : 0;
    const int value = inside ? values[first + t] : 0;
    const int digit = digit_of(key, shift, inside);
    const unsigned same = __match_any_sync(ALL, digit);
    count_in_warps(count, digit, same);
    scan_in_block(count, of_warps);  // count[warp][digit] is now where this warp's keys of that digit begin

    // BEGIN SOLUTION: put key and value in order in shared memory: behind equal digits of lower lanes (about 6 lines)
    // END SOLUTION

    // BEGIN SOLUTION: thread t stores the t-th of the block's order; starts says where its digit begins (about 6 lines)
    // END SOLUTION
}
