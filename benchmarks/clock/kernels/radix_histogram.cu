// radix_histogram.cu: how many of a block's keys have each value of a digit of 4 bits, counted by votes of warps
// Entry:   count(const int key[n] in, int found[16,cdiv(n,2048)] out, int n, int shift)
// Launch:  count block=(256) grid=(cdiv(n, 2048))

extern "C" __global__ void count(const int* __restrict__ key, int* __restrict__ found, int n, int shift)
{
    __shared__ int of_warp[8][16];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int mine = 0;       // of digit `lane`, for the first 16 lanes
    for (int k = 0; k < 8; ++k) {
        const int i = blockIdx.x * 2048 + k * 256 + threadIdx.x;
        const unsigned valid = __ballot_sync(~0u, i < n);
        const int digit = i < n ? key[i] >> shift & 15 : 0;
        unsigned same = valid;
#pragma unroll
        for (int bit = 0; bit < 4; ++bit) {
            const unsigned set = __ballot_sync(~0u, digit >> bit & 1);
            same &= lane >> bit & 1 ? set : ~set;
        }
        mine += __popc(same);
    }
    if (lane < 16) of_warp[warp][lane] = mine;
    __syncthreads();
    if (threadIdx.x < 16) {
        int total = 0;
        for (int k = 0; k < 8; ++k) total += of_warp[k][threadIdx.x];
        found[threadIdx.x * gridDim.x + blockIdx.x] = total;
    }
}
