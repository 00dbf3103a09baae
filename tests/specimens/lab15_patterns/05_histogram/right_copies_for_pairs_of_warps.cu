// right_copies_for_pairs_of_warps.cu: two histograms in a block; lanes compare with the first that is left.
// Entry:   histogram(const unsigned char x[n] in, int count[BINS] out, int n)
// Needs:   n >= 1
// Zeroed:  count
// Launch:  histogram block=(512) grid=(min(cdiv(n, 16384), 132))

// expect: AC
constexpr int BINS = 256;

extern "C" __global__ void histogram(const unsigned char* x, int* count, int n)
{
    __shared__ int own[2][BINS];
    const int t = threadIdx.x, lane = t % 32;
    int* mine = own[t / 256];
    own[t / 256][t % 256] = 0;
    __syncthreads();
    for (int first = blockIdx.x * 512; first < n; first += gridDim.x * 512) {
        const bool inside = first + t < n;
        const int bin = inside ? x[first + t] : 0;
        unsigned left = __ballot_sync(~0u, inside);
        while (left) {
            const int leader = __ffs(left) - 1;
            const unsigned same = __ballot_sync(~0u, inside && bin == __shfl_sync(~0u, bin, leader)) & left;
            if (lane == leader) atomicAdd(mine + bin, __popc(same));
            left &= ~same;
        }
    }
    __syncthreads();
    if (t < BINS) {
        const int sum = own[0][t] + own[1][t];
        if (sum) atomicAdd(count + t, sum);
    }
}
