// right_counters_of_warps.cu: each warp has counters of its own, so that its leaders need no atomics.
// Entry:   histogram(const unsigned char x[n] in, int count[BINS] out, int n)
// Needs:   n >= 1
// Zeroed:  count
// Launch:  histogram block=(256) grid=(min(cdiv(n, 8192), 264))

// expect: AC
constexpr int BINS = 256;

extern "C" __global__ void histogram(const unsigned char* x, int* count, int n)
{
    __shared__ int own[8][BINS];
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    for (int w = 0; w < 8; ++w) own[w][t] = 0;
    __syncthreads();
    for (long long first = blockIdx.x * 256ll; first < n; first += gridDim.x * 256ll) {
        const long long i = first + t;
        const int bin = i < n ? x[i] : BINS;
        const unsigned same = __match_any_sync(~0u, bin);
        if (bin < BINS && lane == __ffs(same) - 1) {
            own[warp][bin] += __popc(same);
        }
        __syncwarp();  // the next round's leader for the same value is another lane
    }
    __syncthreads();
    int sum = 0;
    #pragma unroll 1
    for (int w = 0; w < 8; ++w) sum += own[w][t];
    if (sum > 0) atomicAdd(count + t, sum);
}
