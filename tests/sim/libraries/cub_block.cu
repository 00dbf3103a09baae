// Algorithms of CUB for a block of 128 threads with four numbers each. `in` holds 512 unsigned numbers.
#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_shuffle.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_exchange.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cuda/functional>
constexpr int B = 128, N = 4;
struct Below { __device__ bool operator()(unsigned a, unsigned b) const { return a < b; } };
struct Minus { __device__ unsigned operator()(unsigned a, unsigned b) const { return a - b; } };
struct Differs { __device__ bool operator()(unsigned a, unsigned b) const { return a / 8 != b / 8; } };

template <class Loads, class Stores> __device__ void moved(const unsigned* in, unsigned* out)
{
    __shared__ union { typename Loads::TempStorage loads; typename Stores::TempStorage stores; } s;
    unsigned x[N];
    Loads(s.loads).Load(in, x);
    __syncthreads();
    for (unsigned& v : x) v = v * 3 + threadIdx.x;
    Stores(s.stores).Store(out, x, B * N - 5);
}
extern "C" __global__ void transposed(const unsigned* in, unsigned* out)
{
    moved<cub::BlockLoad<unsigned, B, N, cub::BLOCK_LOAD_WARP_TRANSPOSE>, cub::BlockStore<unsigned, B, N, cub::BLOCK_STORE_TRANSPOSE>>(in, out);
}
extern "C" __global__ void vectorized(const unsigned* in, unsigned* out)
{
    moved<cub::BlockLoad<unsigned, B, N, cub::BLOCK_LOAD_VECTORIZE>, cub::BlockStore<unsigned, B, N, cub::BLOCK_STORE_DIRECT>>(in, out);
}
template <cub::BlockReduceAlgorithm How> __device__ void reduced(const unsigned* in, unsigned* out)
{
    using Reduce = cub::BlockReduce<unsigned, B, How>;
    __shared__ typename Reduce::TempStorage s;
    unsigned x[N];
    cub::LoadDirectBlocked(threadIdx.x, in, x);
    unsigned sum = Reduce(s).Sum(x);
    __syncthreads();
    unsigned most = Reduce(s).Reduce(x, cuda::maximum<unsigned>());
    if (threadIdx.x == 0) out[0] = sum, out[1] = most;
}
extern "C" __global__ void reduce_shuffles(const unsigned* in, unsigned* out) { reduced<cub::BLOCK_REDUCE_WARP_REDUCTIONS>(in, out); }
extern "C" __global__ void reduce_raking(const unsigned* in, unsigned* out) { reduced<cub::BLOCK_REDUCE_RAKING>(in, out); }
template <cub::BlockScanAlgorithm How> __device__ void scanned(const unsigned* in, unsigned* out)
{
    using Scan = cub::BlockScan<unsigned, B, How>;
    __shared__ typename Scan::TempStorage s;
    unsigned x[N], total;
    cub::LoadDirectBlocked(threadIdx.x, in, x);
    Scan(s).ExclusiveSum(x, x, total);
    cub::StoreDirectBlocked(threadIdx.x, out, x);
    if (threadIdx.x == 0) out[B * N] = total;
}
extern "C" __global__ void scan_shuffles(const unsigned* in, unsigned* out) { scanned<cub::BLOCK_SCAN_WARP_SCANS>(in, out); }
extern "C" __global__ void scan_raking(const unsigned* in, unsigned* out) { scanned<cub::BLOCK_SCAN_RAKING>(in, out); }
extern "C" __global__ void radix(const unsigned* in, unsigned* out)
{
    using Sort = cub::BlockRadixSort<unsigned, B, N, unsigned>;
    __shared__ typename Sort::TempStorage s;
    unsigned x[N], place[N];
    cub::LoadDirectBlocked(threadIdx.x, in, x);
    for (int k = 0; k < N; k++) place[k] = threadIdx.x * N + k;
    Sort(s).Sort(x, place, 4, 16);
    cub::StoreDirectBlocked(threadIdx.x, out, x);
    cub::StoreDirectBlocked(threadIdx.x, out + B * N, place);
}
extern "C" __global__ void merged(const unsigned* in, unsigned* out)
{
    using Sort = cub::BlockMergeSort<unsigned, B, N>;
    __shared__ typename Sort::TempStorage s;
    unsigned x[N];
    cub::LoadDirectBlocked(threadIdx.x, in, x);
    Sort(s).Sort(x, Below());
    cub::StoreDirectBlocked(threadIdx.x, out, x);
}
template <cub::BlockHistogramAlgorithm How> __device__ void counted(const unsigned* in, unsigned* out)
{
    using Histogram = cub::BlockHistogram<unsigned char, B, N, 64, How>;
    __shared__ typename Histogram::TempStorage s;
    __shared__ unsigned bins[64];
    unsigned char x[N];
    for (int k = 0; k < N; k++) x[k] = in[threadIdx.x * N + k] % 64;
    Histogram(s).Histogram(x, bins);
    __syncthreads();
    if (threadIdx.x < 64) out[threadIdx.x] = bins[threadIdx.x];
}
extern "C" __global__ void histogram_atomic(const unsigned* in, unsigned* out) { counted<cub::BLOCK_HISTO_ATOMIC>(in, out); }
extern "C" __global__ void histogram_sort(const unsigned* in, unsigned* out) { counted<cub::BLOCK_HISTO_SORT>(in, out); }
extern "C" __global__ void exchanged(const unsigned* in, unsigned* out)
{
    using Exchange = cub::BlockExchange<unsigned, B, N>;
    __shared__ typename Exchange::TempStorage s;
    unsigned x[N];
    cub::LoadDirectBlocked(threadIdx.x, in, x);
    Exchange(s).BlockedToStriped(x, x);
    for (int k = 0; k < N; k++) out[threadIdx.x * N + k] = x[k];
}
extern "C" __global__ void neighbours(const unsigned* in, unsigned* out)
{
    using Shuffle = cub::BlockShuffle<unsigned, B>;
    using Difference = cub::BlockAdjacentDifference<unsigned, B>;
    using Heads = cub::BlockDiscontinuity<unsigned, B>;
    __shared__ union { Shuffle::TempStorage shuffle; Difference::TempStorage difference; Heads::TempStorage heads; } s;
    unsigned x[N], y[N];
    int heads[N];
    cub::LoadDirectBlocked(threadIdx.x, in, x);
    Shuffle(s.shuffle).Up(x, y);
    if (threadIdx.x == 0) y[0] = 0;
    cub::StoreDirectBlocked(threadIdx.x, out, y);
    __syncthreads();
    Difference(s.difference).SubtractLeft(x, y, Minus());
    cub::StoreDirectBlocked(threadIdx.x, out + B * N, y);
    __syncthreads();
    Heads(s.heads).FlagHeads(heads, x, Differs());
    cub::StoreDirectBlocked(threadIdx.x, out + 2 * B * N, (unsigned(&)[N])heads);
}
extern "C" __global__ void warps(const unsigned* in, unsigned* out)
{
    using Reduce = cub::WarpReduce<unsigned>;
    using Scan = cub::WarpScan<unsigned>;
    using Exchange = cub::WarpExchange<unsigned, N>;
    using Sort = cub::WarpMergeSort<unsigned, N>;
    __shared__ union { Reduce::TempStorage reduce[4]; Scan::TempStorage scan[4]; Exchange::TempStorage exchange[4]; Sort::TempStorage sort[4]; } s;
    const int w = threadIdx.x / 32, t = threadIdx.x;
    unsigned x[N], y[N], sum;
    cub::LoadDirectBlocked(t, in, x);
    sum = Reduce(s.reduce[w]).Sum(x[0]);
    if (t % 32 == 0) out[3 * B * N + w] = sum;
    __syncthreads();
    Scan(s.scan[w]).InclusiveScan(x[1], sum, cuda::maximum<unsigned>());
    out[t] = sum;
    __syncthreads();
    Exchange(s.exchange[w]).StripedToBlocked(x, y);
    cub::StoreDirectBlocked(t, out + B * N, y);
    __syncthreads();
    Sort(s.sort[w]).Sort(x, Below());
    cub::StoreDirectBlocked(t, out + 2 * B * N, x);
}
