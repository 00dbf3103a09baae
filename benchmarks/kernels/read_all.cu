// read_all.cu: reads all of an array and keeps next to nothing: how fast memory can be read.
// Idea:    a copy of as many bytes reads half of them and stores the other half, which the L2 cache still holds when the
//          copy is over. What has to read all of them is better held against this. A block folds what it reads by XOR,
//          so the result does not depend on who came when.
// Entry:   read_all(const int words[N] in, int folded[BLOCKS] out, int N)
// Needs:   N % 4 == 0
// Launch:  read_all block=(THREADS) grid=(BLOCKS)

constexpr int BLOCKS = 264;   // two on each multiprocessor of an H100 or H200
constexpr int THREADS = 1024;
constexpr int TURN = 8;       // loads of 16 bytes that a thread has under way
constexpr int WARP = 32;

extern "C" __global__ void __launch_bounds__(THREADS)
read_all(const int* __restrict__ words, int* __restrict__ folded, int N)
{
    __shared__ int of_warp[THREADS / WARP];
    const int4* const fours = reinterpret_cast<const int4*>(words);
    const int count = N / 4;
    constexpr int STRIDE = BLOCKS * THREADS;
    int fold = 0;
    for (int first = blockIdx.x * THREADS + threadIdx.x; first < count; first += TURN * STRIDE) {
        int4 taken[TURN];
        #pragma unroll
        for (int i = 0; i < TURN; ++i) {  // all loads first: they are under way together
            const bool there = first < count - i * STRIDE;
            taken[i] = there ? fours[first + i * STRIDE] : make_int4(0, 0, 0, 0);
        }
        #pragma unroll
        for (int i = 0; i < TURN; ++i) {
            fold ^= taken[i].x ^ taken[i].y ^ taken[i].z ^ taken[i].w;
        }
    }
    fold = __reduce_xor_sync(0xffffffffu, fold);
    if (threadIdx.x % WARP == 0) {
        of_warp[threadIdx.x / WARP] = fold;
    }
    __syncthreads();
    if (threadIdx.x < WARP) {
        const int all = __reduce_xor_sync(0xffffffffu, of_warp[threadIdx.x]);
        if (threadIdx.x == 0) {
            folded[blockIdx.x] = all;
        }
    }
}
