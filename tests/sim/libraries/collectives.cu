// Cooperative groups' collectives: every reduction and scan, partitions of all kinds, and the whole grid.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
namespace cg = cooperative_groups;

template <class Group> __device__ unsigned* reductions(const Group& g, unsigned x, unsigned* out)
{
    const int t = threadIdx.x, n = blockDim.x;
    out[t] = cg::reduce(g, x, cg::plus<unsigned>());
    out[t + n] = cg::reduce(g, x, cg::less<unsigned>());
    out[t + 2 * n] = cg::reduce(g, x, cg::greater<unsigned>());
    out[t + 3 * n] = cg::reduce(g, x, cg::bit_and<unsigned>());
    out[t + 4 * n] = cg::reduce(g, x, cg::bit_or<unsigned>());
    out[t + 5 * n] = cg::reduce(g, x, cg::bit_xor<unsigned>());
    out[t + 6 * n] = cg::reduce(g, x, [](unsigned a, unsigned b) { return a * b; });
    out[t + 7 * n] = cg::inclusive_scan(g, x);
    out[t + 8 * n] = cg::exclusive_scan(g, x);
    out[t + 9 * n] = cg::inclusive_scan(g, x, cg::greater<unsigned>());
    out[t + 10 * n] = cg::exclusive_scan(g, x, cg::bit_xor<unsigned>());
    out[t + 11 * n] = __float_as_uint(cg::reduce(g, float(x % 64), cg::plus<float>()));
    return out + 12 * n;
}
template <int Size> __device__ void tiles(const unsigned* in, unsigned* out)
{
    const auto tile = cg::tiled_partition<Size>(cg::this_thread_block());
    const unsigned x = in[threadIdx.x];
    const int t = threadIdx.x, n = blockDim.x;
    out = reductions(tile, x, out);
    out[t] = tile.shfl(x, 1);
    out[t + n] = tile.shfl_up(x, 1);
    out[t + 2 * n] = tile.shfl_down(x, 2);
    out[t + 3 * n] = tile.shfl_xor(x, 1);
    out[t + 4 * n] = tile.any(x % 8 == 0) + 2 * tile.all(x % 2 == 0);
    out[t + 5 * n] = tile.ballot(x % 2 == 0);
    out[t + 6 * n] = tile.thread_rank() + 100 * tile.meta_group_rank() + 10000 * tile.size() + tile.meta_group_size();
    out[t + 7 * n] = __popc(tile.match_any(x % 4)) + 100 * (tile.match_all(x, *(int*)(out + t + 8 * n)) != 0);
}
extern "C" __global__ void tiles4(const unsigned* in, unsigned* out) { tiles<4>(in, out); }
extern "C" __global__ void tiles16(const unsigned* in, unsigned* out) { tiles<16>(in, out); }
extern "C" __global__ void tiles32(const unsigned* in, unsigned* out) { tiles<32>(in, out); }

extern "C" __global__ void large_tiles(const unsigned* in, unsigned* out)
{
    __shared__ cg::block_tile_memory<128> scratch;
    const auto tile = cg::tiled_partition<64>(cg::this_thread_block(scratch));
    const unsigned x = in[threadIdx.x];
    const int t = threadIdx.x, n = blockDim.x;
    out[t] = cg::reduce(tile, x, cg::plus<unsigned>());
    out[t + n] = cg::inclusive_scan(tile, x);
    out[t + 2 * n] = cg::exclusive_scan(tile, x);
    out[t + 3 * n] = tile.shfl(x, 40);
    out[t + 4 * n] = tile.any(x % 32 == 0) + 2 * tile.all(x > 5);
    tile.sync();
    out[t + 5 * n] = tile.thread_rank() + 1000 * tile.meta_group_rank();
}
extern "C" __global__ void coalesced(const unsigned* in, unsigned* out)
{
    const unsigned x = in[threadIdx.x];
    if (x % 3 == 0) {
        const auto active = cg::coalesced_threads();
        out = reductions(active, x, out);
        out[threadIdx.x] = active.thread_rank() + 100 * active.size();
        out[threadIdx.x + blockDim.x] = active.shfl(x, active.size() - 1);
    }
}
extern "C" __global__ void parted(const unsigned* in, unsigned* out)
{
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const unsigned x = in[threadIdx.x];
    const int n = blockDim.x;
    out = reductions(cg::labeled_partition(warp, x % 3), x, out);
    out = reductions(cg::binary_partition(warp, x % 2 == 0), x, out);
    const auto active = cg::coalesced_threads();
    const auto half = cg::binary_partition(active, threadIdx.x % 32 < 20);
    out[threadIdx.x] = half.size();
    const auto eighth = cg::tiled_partition(active, 8);
    out[threadIdx.x + n] = eighth.size() * 100 + eighth.thread_rank();
}
extern "C" __global__ void updates(const unsigned* in, unsigned* out)
{
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> sum(out[0]);
    cg::reduce_update_async(warp, sum, in[threadIdx.x], cg::plus<unsigned>());
    cuda::atomic<unsigned, cuda::thread_scope_device>& most = *reinterpret_cast<cuda::atomic<unsigned, cuda::thread_scope_device>*>(out + 1);
    cg::reduce_update_async(warp, most, in[threadIdx.x], cg::greater<unsigned>());
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> place(out[2]);
    const unsigned mine = in[threadIdx.x] % 4;
    const unsigned at = cg::exclusive_scan_update(warp, place, mine, cg::plus<unsigned>());
    for (unsigned k = 0; k < mine; k++) atomicAdd(out + 3 + at + k, 1);
}
extern "C" __global__ void stored(const unsigned* in, unsigned* out)
{
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    cg::reduce_store_async(warp, out + warp.meta_group_rank(), in[threadIdx.x], cg::plus<unsigned>());
}
extern "C" __global__ void whole_grid(const unsigned* in, unsigned* out)
{
    const auto grid = cg::this_grid();
    const unsigned me = grid.thread_rank(), all = grid.num_threads();
    out[me] = in[me] * 3;
    grid.sync();
    out[all + me] = out[all - 1 - me] + grid.block_rank() + 10 * grid.num_blocks() + 1000 * grid.is_valid();
    auto token = grid.barrier_arrive();
    grid.barrier_wait(cuda::std::move(token));
    out[2 * all + me] = out[all + (me + 128) % all];
}
