// right_template_of_small_blocks.cu: the block and what each thread takes are parameters of a template.
// Entry:   histogram(const unsigned char x[n] in, int count[BINS] out, int n)
// Needs:   n >= 1
// Zeroed:  count
// Launch:  histogram block=(128) grid=(min(cdiv(n, 8192), 264))

// expect: AC
constexpr int BINS = 256;

template <int BLOCK>
__device__ void count_block(const unsigned char* x, int* own, int from, int to)
{
    for (int first = from; first < to; first += BLOCK) {
        const int i = first + static_cast<int>(threadIdx.x);
        const bool inside = i < to;
        const int bin = inside ? static_cast<int>(x[i]) : -1;
        const unsigned same = __match_any_sync(__activemask(), bin);
        const int leader = __ffs(static_cast<int>(same)) - 1;
        if (inside && leader == static_cast<int>(threadIdx.x % 32)) {
            atomicAdd(&own[bin], __popc(same));
        }
        __syncwarp();
    }
}

extern "C" __global__ void histogram(const unsigned char* x, int* count, int n)
{
    __shared__ int own[BINS];
    for (int k = threadIdx.x; k < BINS; k += 128) own[k] = 0;
    __syncthreads();
    const int blocks = gridDim.x, share = ((n + blocks - 1) / blocks + 127) / 128 * 128;
    const int from = min(static_cast<int>(blockIdx.x) * share, n);
    count_block<128>(x, own, from, min(from + share, n));
    __syncthreads();
    for (int k = threadIdx.x; k < BINS; k += 128) {
        if (own[k]) atomicAdd(&count[k], own[k]);
    }
}
