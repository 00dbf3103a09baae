// right_by_hand.cu: the vote and the addition are instructions of PTX.
// Entry:   histogram(const unsigned char x[n] in, int count[BINS] out, int n)
// Needs:   n >= 1
// Zeroed:  count
// Launch:  histogram block=(256) grid=(min(cdiv(n, 8192), 264))

// expect: AC
constexpr int BINS = 256;

extern "C" __global__ void histogram(const unsigned char* x, int* count, int n)
{
    __shared__ int own[BINS];
    const int t = threadIdx.x;
    own[t] = 0;
    __syncthreads();
    for (int first = blockIdx.x * blockDim.x; first < n; first += gridDim.x * blockDim.x) {
        const int i = first + t;
        int bin = BINS;
        if (i < n) bin = x[i];
        unsigned same;
        asm volatile("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(same) : "r"(bin));
        if (bin != BINS && __ffs(same) == t % 32 + 1) {
            const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(own + bin));
            asm volatile("red.shared.add.u32 [%0], %1;" :: "r"(place), "r"(__popc(same)) : "memory");
        }
    }
    __syncthreads();
    if (own[t]) atomicAdd(count + t, own[t]);
}
