// right_bit_by_bit.cu: lanes of one value find each other by a vote for each bit of it.
// Entry:   histogram(const unsigned char x[n] in, int count[BINS] out, int n)
// Needs:   n >= 1
// Zeroed:  count
// Launch:  histogram block=(256) grid=(min(cdiv(n, 8192), 264))

// expect: AC
constexpr int BINS = 256;

__device__ __forceinline__ unsigned alike(int value)
{
    unsigned same = 0xffffffffu;
    #pragma unroll
    for (int bit = 0; bit < 9; ++bit) {
        const bool mine = value >> bit & 1;
        const unsigned set = __ballot_sync(0xffffffffu, mine);
        same &= mine ? set : ~set;
    }
    return same;
}

extern "C" __global__ void histogram(const unsigned char* __restrict__ x, int* __restrict__ count, int n)
{
    __shared__ int own[BINS];
    own[threadIdx.x] = 0;
    __syncthreads();
    const unsigned below = (1u << threadIdx.x % 32) - 1;
    for (int first = blockIdx.x * 256; first < n; first += gridDim.x * 256) {
        const int i = first + threadIdx.x;
        const int value = i < n ? x[i] : BINS;
        const unsigned same = alike(value);
        if (value != BINS && (same & below) == 0) {
            atomicAdd(own + value, __popc(same));
        }
    }
    __syncthreads();
    if (own[threadIdx.x] != 0) {
        atomicAdd(count + threadIdx.x, own[threadIdx.x]);
    }
}
