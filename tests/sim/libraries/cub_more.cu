// More of CUB for blocks of 128 threads with four numbers each, and for warps. (<cub/cub.cuh> is for host compilers.)
#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_run_length_decode.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_shuffle.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_load.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cub/warp/warp_store.cuh>
constexpr int B = 128, N = 4;
struct Above { __device__ bool operator()(unsigned a, unsigned b) const { return a > b; } };
struct Minus { __device__ unsigned operator()(unsigned a, unsigned b) const { return a - b; } };
struct Differs { __device__ bool operator()(unsigned a, unsigned b) const { return a / 8 != b / 8; } };
struct Sum { __device__ unsigned operator()(unsigned a, unsigned b) const { return a + b; } };

template <cub::BlockLoadAlgorithm In, cub::BlockStoreAlgorithm Out> __device__ void moved(const unsigned* in, unsigned* out)
{
    using Loads = cub::BlockLoad<unsigned, B, N, In>;
    using Stores = cub::BlockStore<unsigned, B, N, Out>;
    __shared__ union { typename Loads::TempStorage loads; typename Stores::TempStorage stores; } s;
    unsigned x[N];
    Loads(s.loads).Load(in, x, B * N - 3, 9u);
    __syncthreads();
    for (unsigned& v : x) v += threadIdx.x;
    Stores(s.stores).Store(out, x, B * N - 5);
}
#define MOVED(NAME, HOW) extern "C" __global__ void NAME(const unsigned* in, unsigned* out) { moved<cub::BLOCK_LOAD_##HOW, cub::BLOCK_STORE_##HOW>(in, out); }
MOVED(move_direct, DIRECT)
MOVED(move_striped, STRIPED)
MOVED(move_vectorize, VECTORIZE)
MOVED(move_transpose, TRANSPOSE)
MOVED(move_warp_transpose, WARP_TRANSPOSE)
MOVED(move_warp_transpose_timesliced, WARP_TRANSPOSE_TIMESLICED)

extern "C" __global__ void reduce_commutative(const unsigned* in, unsigned* out)
{
    using Reduce = cub::BlockReduce<unsigned, B, cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>;
    __shared__ typename Reduce::TempStorage s;
    unsigned x[N];
    cub::LoadDirectStriped<B>(threadIdx.x, in, x);
    const unsigned sum = Reduce(s).Sum(x);
    __syncthreads();
    const unsigned part = Reduce(s).Sum(x[0], 77);
    if (threadIdx.x == 0) out[0] = sum, out[1] = part;
}
struct Before {
    unsigned running;
    __device__ unsigned operator()(unsigned sum) { const unsigned old = running; running += sum; return old; }
};
extern "C" __global__ void scan_memoized(const unsigned* in, unsigned* out)
{
    using Scan = cub::BlockScan<unsigned, B, cub::BLOCK_SCAN_RAKING_MEMOIZE>;
    __shared__ typename Scan::TempStorage s;
    Before before{1000};
    for (int tile = 0; tile < N; tile++) {
        unsigned x = in[tile * B + threadIdx.x];
        Scan(s).ExclusiveSum(x, x, before);
        out[tile * B + threadIdx.x] = x;
        __syncthreads();
    }
}
template <bool Memoize, cub::BlockScanAlgorithm Scan> __device__ void sorted(const unsigned* in, unsigned* out)
{
    using Sort = cub::BlockRadixSort<unsigned, B, N, cub::NullType, 5, Memoize, Scan>;
    __shared__ typename Sort::TempStorage s;
    unsigned x[N];
    cub::LoadDirectBlocked(threadIdx.x, in, x);
    Sort(s).SortDescending(x);
    cub::StoreDirectBlocked(threadIdx.x, out, x);
    __syncthreads();
    Sort(s).SortBlockedToStriped(x, 8);
    cub::StoreDirectStriped<B>(threadIdx.x, out + B * N, x);
}
extern "C" __global__ void radix5(const unsigned* in, unsigned* out) { sorted<true, cub::BLOCK_SCAN_RAKING>(in, out); }
extern "C" __global__ void radix5_plain(const unsigned* in, unsigned* out) { sorted<false, cub::BLOCK_SCAN_WARP_SCANS>(in, out); }
extern "C" __global__ void floats_sorted(const unsigned* in, unsigned* out)
{
    using Sort = cub::BlockRadixSort<float, B, N>;
    __shared__ typename Sort::TempStorage s;
    float x[N];
    for (int k = 0; k < N; k++) x[k] = int(in[threadIdx.x * N + k]) * 1e-5f;
    Sort(s).Sort(x);
    for (int k = 0; k < N; k++) out[threadIdx.x * N + k] = __float_as_uint(x[k]);
}
extern "C" __global__ void merged_pairs(const unsigned* in, unsigned* out)
{
    using Sort = cub::BlockMergeSort<unsigned, B, N, unsigned>;
    __shared__ typename Sort::TempStorage s;
    unsigned x[N], place[N];
    for (int k = 0; k < N; k++) x[k] = in[threadIdx.x * N + k] % 97, place[k] = threadIdx.x * N + k;
    Sort(s).StableSort(x, place, Above());
    cub::StoreDirectBlocked(threadIdx.x, out, x);
    cub::StoreDirectBlocked(threadIdx.x, out + B * N, place);
}
extern "C" __global__ void exchanges(const unsigned* in, unsigned* out)
{
    using Exchange = cub::BlockExchange<unsigned, B, N>;
    __shared__ typename Exchange::TempStorage s;
    unsigned x[N];
    int to[N];
    cub::LoadDirectBlocked(threadIdx.x, in, x);
    Exchange(s).StripedToBlocked(x, x);
    cub::StoreDirectBlocked(threadIdx.x, out, x);
    __syncthreads();
    Exchange(s).BlockedToWarpStriped(x, x);
    cub::StoreDirectBlocked(threadIdx.x, out + B * N, x);
    __syncthreads();
    for (int k = 0; k < N; k++) to[k] = (threadIdx.x * N + k) * 5 % (B * N);
    Exchange(s).ScatterToBlocked(x, to);
    cub::StoreDirectBlocked(threadIdx.x, out + 2 * B * N, x);
}
extern "C" __global__ void tails_and_runs(const unsigned* in, unsigned* out)
{
    using Difference = cub::BlockAdjacentDifference<unsigned, B>;
    using Tails = cub::BlockDiscontinuity<unsigned, B>;
    using Decode = cub::BlockRunLengthDecode<unsigned, B, 1, N>;
    using Shuffle = cub::BlockShuffle<unsigned, B>;
    __shared__ union { Difference::TempStorage difference; Tails::TempStorage tails; Decode::TempStorage decode; Shuffle::TempStorage shuffle; } s;
    unsigned x[N], y[N];
    int tails[N];
    cub::LoadDirectBlocked(threadIdx.x, in, x);
    Difference(s.difference).SubtractRight(x, y, Minus());
    cub::StoreDirectBlocked(threadIdx.x, out, y);
    __syncthreads();
    Tails(s.tails).FlagTails(tails, x, Differs());
    cub::StoreDirectBlocked(threadIdx.x, out + B * N, (unsigned(&)[N])tails);
    __syncthreads();
    Shuffle(s.shuffle).Rotate(x[0], y[0], 3);
    out[3 * B * N + threadIdx.x] = y[0];
    __syncthreads();
    unsigned value[1] = {threadIdx.x * 10}, length[1] = {threadIdx.x % 8 + 1}, total = 0;
    Decode decode(s.decode, value, length, total);
    unsigned items[N];
    decode.RunLengthDecode(items, 0);
    cub::StoreDirectBlocked(threadIdx.x, out + 2 * B * N, items);
    if (threadIdx.x == 0) out[3 * B * N + B] = total;
}
extern "C" __global__ void warp_segments(const unsigned* in, unsigned* out)
{
    using Reduce = cub::WarpReduce<unsigned>;
    using Half = cub::WarpReduce<unsigned, 16>;
    using Scan = cub::WarpScan<unsigned, 8>;
    using Loads = cub::WarpLoad<unsigned, N, cub::WARP_LOAD_TRANSPOSE>;
    using Stores = cub::WarpStore<unsigned, N, cub::WARP_STORE_STRIPED>;
    __shared__ union { Reduce::TempStorage reduce[4]; Half::TempStorage half[8]; Scan::TempStorage scan[16]; Loads::TempStorage loads[4]; Stores::TempStorage stores[4]; } s;
    const int w = threadIdx.x / 32, t = threadIdx.x;
    const unsigned x = in[t];
    out[t] = Reduce(s.reduce[w]).HeadSegmentedSum(x, t % 5 == 0);
    __syncthreads();
    out[t + B] = Reduce(s.reduce[w]).TailSegmentedSum(x, t % 5 == 4);
    __syncthreads();
    const unsigned half = Half(s.half[t / 16]).Reduce(x, Sum());
    out[t + 2 * B] = t % 16 == 0 ? half : 0;
    __syncthreads();
    unsigned inclusive, exclusive;
    Scan(s.scan[t / 8]).Scan(x, inclusive, exclusive, 3u, Sum());
    out[t + 3 * B] = inclusive, out[t + 4 * B] = exclusive;
    __syncthreads();
    unsigned y[N];
    Loads(s.loads[w]).Load(in + w * 32 * N, y);
    Stores(s.stores[w]).Store(out + 5 * B + w * 32 * N, y);
}
