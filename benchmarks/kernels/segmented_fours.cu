// segmented_fours.cu: lab 15's 01_segmented_sum as fast as we know how: sums[s] is the sum of the elements of segment s.
// Idea:    a lane takes four neighbours, so that four times fewer shuffles are needed, and a warp's sums go on from one
//          128 to the next: it adds to memory where a segment ends, not every 32 elements. Segments follow each other: a
//          block whose first and last element agree has one segment only, and adds once. Atomic additions to one place
//          come one after the other, some 2 ns each, whoever sends them.
// From:    lab 15's 01_segmented_sum
// Entry:   segmented_sum(const float x[n] in, const unsigned segment[n] in, float sums[S] out, int n, int S)
// Needs:   n >= 1, S >= 1
// Zeroed:  sums
// Launch:  segmented_sum block=(BLOCK) grid=(cdiv(n, TILE))
// Usual:   S = 1024

constexpr int BLOCK = 256;
constexpr int BLOCKS = 4;  // that share an SM
constexpr int ROUNDS = 2;  // fours of a lane
constexpr int TILE = BLOCK * ROUNDS * 4;
constexpr int WARP = 32;
constexpr int WARPS = BLOCK / WARP;
constexpr unsigned ALL = 0xffffffffu;

struct Run {  // a sum that may not be complete, and the segment that it belongs to
    float sum;
    unsigned segment;
};

__device__ float4 load_values(const float* __restrict__ x, int i, int n)
{
    if (i + 4 <= n) return *reinterpret_cast<const float4*>(x + i);
    return {i < n ? x[i] : 0.0f, i + 1 < n ? x[i + 1] : 0.0f, i + 2 < n ? x[i + 2] : 0.0f, 0.0f};
}

// Elements past the end make a segment of their own, S.
__device__ uint4 load_segments(const unsigned* __restrict__ segment, int i, int n, unsigned S)
{
    if (i + 4 <= n) return *reinterpret_cast<const uint4*>(segment + i);
    return {i < n ? segment[i] : S, i + 1 < n ? segment[i + 1] : S, i + 2 < n ? segment[i + 2] : S, S};
}

// One more element of a lane's four: goes on with the run, or adds what lies between two cuts and begins anew.
__device__ void go_on(Run& run, float& head, float x, unsigned s, unsigned s_first, float* sums)
{
    if (s == run.segment) {
        run.sum += x;
    } else {
        if (run.segment != s_first) atomicAdd(&sums[run.segment], run.sum);
        run = {x, s};
    }
    if (s == s_first) head = run.sum;
}

// Adds every run that ends in these 128 elements of a warp; returns the last one, which may go on behind them.
__device__ Run add_runs(float4 x, uint4 s, Run carry, float* sums, unsigned S)
{
    const int lane = threadIdx.x % WARP;
    Run run = {x.x, s.x};  // the one that the four end with
    float head = x.x;      // the sum of the one that they begin with
    go_on(run, head, x.y, s.y, s.x, sums);
    go_on(run, head, x.z, s.z, s.x, sums);
    go_on(run, head, x.w, s.w, s.x, sums);
    const bool cut = s.x != s.w;
    if (lane == 0 && !cut && carry.segment == s.x) {
        run.sum += carry.sum;
    }
    for (int distance = 1; distance < WARP; distance *= 2) {
        const float other = __shfl_up_sync(ALL, run.sum, distance);
        const unsigned its = __shfl_up_sync(ALL, run.segment, distance);
        if (lane >= distance && its == run.segment) {
            run.sum += other;
        }
    }
    const float left = __shfl_up_sync(ALL, run.sum, 1);
    const unsigned its = __shfl_up_sync(ALL, run.segment, 1);
    const Run before = lane == 0 ? carry : Run{left, its};
    if (before.segment != s.x && before.segment < S) {
        atomicAdd(&sums[before.segment], before.sum);
    }
    if (cut && s.x < S) {
        atomicAdd(&sums[s.x], head + (before.segment == s.x ? before.sum : 0.0f));
    }
    return {__shfl_sync(ALL, run.sum, WARP - 1), __shfl_sync(ALL, run.segment, WARP - 1)};
}

// Adds the sum of all elements of a block to one place.
__device__ void add_block(const float4 (&x)[ROUNDS], float* to)
{
    __shared__ float of_warps[WARPS];
    float all = 0.0f;
    #pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
        all += x[r].x + x[r].y + (x[r].z + x[r].w);
    }
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        all += __shfl_xor_sync(ALL, all, distance);
    }
    if (threadIdx.x % WARP == 0) {
        of_warps[threadIdx.x / WARP] = all;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        float whole = 0.0f;
        for (int w = 0; w < WARPS; ++w) {
            whole += of_warps[w];
        }
        atomicAdd(to, whole);
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS)
segmented_sum(const float* __restrict__ x, const unsigned* __restrict__ segment, float* __restrict__ sums, int n, int S)
{
    const int begin = blockIdx.x * TILE;
    const int i = begin + threadIdx.x / WARP * (ROUNDS * WARP * 4) + threadIdx.x % WARP * 4;
    float4 values[ROUNDS];
    uint4 own[ROUNDS];
    #pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
        values[r] = load_values(x, i + r * WARP * 4, n);
        own[r] = load_segments(segment, i + r * WARP * 4, n, S);
    }
    const unsigned lowest = segment[begin];
    if (lowest == segment[min(begin + TILE, n) - 1]) {
        add_block(values, &sums[lowest]);
        return;
    }
    Run carry = {0.0f, static_cast<unsigned>(S)};
    #pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
        carry = add_runs(values[r], own[r], carry, sums, S);
    }
    if (threadIdx.x % WARP == 0 && carry.segment < S) {
        atomicAdd(&sums[carry.segment], carry.sum);
    }
}
