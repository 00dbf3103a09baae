// Sorts the keys of a block by 4 bits at a time, all eight passes unrolled; a thread owns 8 neighbours.
constexpr int THREADS = 128, OWN = 8, KEYS = THREADS * OWN, BITS = 4, DIGITS = 1 << BITS, WARPS = THREADS / 32;

// The sum of what the threads before this one have, and that of all.
__device__ unsigned before(unsigned own, unsigned* of_warps, unsigned& all)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned sum = own;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
        const unsigned other = __shfl_up_sync(0xffffffff, sum, by);
        if (lane >= by)
            sum += other;
    }
    __syncthreads(); // everybody has read what the last call left
    if (lane == 31)
        of_warps[warp] = sum;
    __syncthreads();
    unsigned base = 0;
    all = 0;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
        if (w < warp)
            base += of_warps[w];
        all += of_warps[w];
    }
    return base + sum - own;
}

extern "C" __global__ void radix_sort(const unsigned* keys, unsigned* sorted, int count)
{
    __shared__ unsigned here[KEYS], of_warps[WARPS];
    const int first = blockIdx.x * KEYS;
    unsigned own[OWN];
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        const int at = first + threadIdx.x * OWN + i;
        own[i] = at < count ? keys[at] : 0xffffffff;
    }
#pragma unroll
    for (int shift = 0; shift < 32; shift += BITS) {
        unsigned place[OWN], start = 0; // of the digit, among all keys of the block
        for (unsigned digit = 0; digit < DIGITS; ++digit) {
            unsigned mine = 0, all;
#pragma unroll
            for (int i = 0; i < OWN; ++i)
                mine += (own[i] >> shift & DIGITS - 1) == digit;
            unsigned next = start + before(mine, of_warps, all);
#pragma unroll
            for (int i = 0; i < OWN; ++i)
                if ((own[i] >> shift & DIGITS - 1) == digit)
                    place[i] = next++;
            start += all;
        }
#pragma unroll
        for (int i = 0; i < OWN; ++i)
            here[place[i]] = own[i];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < OWN; ++i)
            own[i] = here[threadIdx.x * OWN + i];
    }
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        const int at = first + threadIdx.x * OWN + i;
        if (at < count)
            sorted[at] = own[i];
    }
}
