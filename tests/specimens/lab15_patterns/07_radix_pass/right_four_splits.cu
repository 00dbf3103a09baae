// right_four_splits.cu: the block is put in order by four splits, a bit each: zeros first, then ones, by votes.
// Entry:   count_digits(const unsigned keys[n] in, int shift, int counts[16,cdiv(n, 256)] out, int n)
// Entry:   find_starts(const int counts[16,cdiv(n, 256)] in, int starts[16,cdiv(n, 256)] out, int n)
// Entry:   move(const unsigned keys[n] in, const int values[n] in, int shift, const int starts[16,cdiv(n, 256)] in,
//               unsigned sorted_keys[n] out, int sorted_values[n] out, int n)
// Needs:   n >= 1, shift >= 0, shift <= 28
// Scratch: counts, starts
// Launch:  count_digits block=(256) grid=(cdiv(n, 256))
// Launch:  find_starts block=(1) grid=(1)
// Launch:  move block=(256) grid=(cdiv(n, 256))

// expect: AC
extern "C" __global__ void count_digits(const unsigned* keys, int shift, int* counts, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const int digit = i < n ? keys[i] >> shift & 15 : 16;
    for (int d = 0; d < 16; ++d) {
        const int number = __syncthreads_count(digit == d);
        if (threadIdx.x == d) counts[d * gridDim.x + blockIdx.x] = number;
    }
}

extern "C" __global__ void find_starts(const int* counts, int* starts, int n)
{
    int sum = 0;
    for (int k = 0; k < (n + 255) / 256 * 16; ++k) {
        starts[k] = sum;
        sum += counts[k];
    }
}

extern "C" __global__ void move(const unsigned* keys, const int* values, int shift, const int* starts,
                                unsigned* sorted_keys, int* sorted_values, int n)
{
    __shared__ uint2 order[256];
    __shared__ int zeros[8], begin[16];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, first = blockIdx.x * 256;
    const int count = min(256, n - first);
    unsigned key = t < count ? keys[first + t] : 0, value = t < count ? values[first + t] : 0;
    for (int bit = 0; bit < 4; ++bit) {
        const bool one = t >= count || key >> (shift + bit) & 1;  // what is past the end stays at the end
        const unsigned vote = __ballot_sync(~0u, !one);
        if (lane == 0) zeros[warp] = __popc(vote);
        __syncthreads();
        int before = __popc(vote & ((1u << lane) - 1)), all = 0;
        for (int w = 0; w < 8; ++w) {
            if (w < warp) before += zeros[w];
            all += zeros[w];
        }
        order[one ? all + t - before : before] = make_uint2(key, value);
        __syncthreads();
        key = order[t].x;
        value = order[t].y;
    }
    const int digit = t < count ? key >> shift & 15 : 16;
    if (t < count && (t == 0 || digit != (order[t - 1].x >> shift & 15))) begin[digit] = t;
    __syncthreads();
    if (t < count) {
        const int to = starts[digit * gridDim.x + blockIdx.x] + t - begin[digit];
        sorted_keys[to] = key;
        sorted_values[to] = value;
    }
}
