// right_last_value_is_kept.cu: a warp adds only when its one value ends; mixed rounds go by a vote.
// Entry:   histogram(const unsigned char x[n] in, int count[BINS] out, int n)
// Needs:   n >= 1
// Zeroed:  count
// Launch:  histogram block=(256) grid=(min(cdiv(n, 8192), 264))

// expect: AC
constexpr int BINS = 256;

__device__ void flush(int* own, int bin, int& kept, int lane)
{
    if (lane == 0 && kept) atomicAdd(own + bin, kept);
    kept = 0;
}

extern "C" __global__ void histogram(const unsigned char* x, int* count, int n)
{
    __shared__ int own[BINS];
    const int t = threadIdx.x, lane = t % 32;
    own[t] = 0;
    __syncthreads();
    int last = 0, kept = 0;  // the same in all lanes of a warp
    for (int first = blockIdx.x * 256; first < n; first += gridDim.x * 256) {
        const int bin = first + t < n ? x[first + t] : BINS;
        int all = 0;
        const unsigned whole = __match_all_sync(~0u, bin, &all);
        if (whole && bin == last) {
            kept += 32;
            continue;
        }
        flush(own, last, kept, lane);
        if (whole && bin < BINS) {
            last = bin;
            kept = 32;
            continue;
        }
        const unsigned same = __match_any_sync(~0u, bin);
        if (bin < BINS && lane == __ffs(same) - 1) atomicAdd(own + bin, __popc(same));
    }
    flush(own, last, kept, lane);
    __syncthreads();
    if (own[t]) atomicAdd(count + t, own[t]);
}
