// launch: grid=2 block=64 words=16
// Cooperative groups: the block, tiles, coalesced lanes, reductions, scans.
// needs: 80
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    __shared__ unsigned s[64];
    const auto block = cg::this_thread_block();
    const auto warp = cg::tiled_partition<32>(block);
    const auto tile = cg::tiled_partition<8>(warp);
    const int t = block.thread_rank(), i = blockIdx.x * block.size() + t;
    const unsigned x = in[i];
    unsigned* o = out + i * 16;
    s[t] = x; block.sync(); o[0] = s[63 - t]; block.sync();
    o[1] = tile.shfl_xor(x, 3) + tile.thread_rank() + tile.meta_group_rank() * 100; o[2] = cg::reduce(tile, x, cg::plus<unsigned>()); o[3] = cg::reduce(warp, x, cg::greater<unsigned>());
    o[4] = cg::inclusive_scan(tile, x & 0xff, cg::plus<unsigned>()); o[5] = cg::exclusive_scan(warp, x & 0xff); o[6] = tile.any(x & 1) | tile.all(x > 4) << 1 | tile.ballot(x & 2) << 8; o[7] = tile.match_any(x & 1);
    unsigned r = 0;
    if (x & 1) { const auto active = cg::coalesced_threads(); r = active.size() * 100 + active.thread_rank(); r += active.shfl(x, 0); r ^= cg::reduce(active, x, cg::plus<unsigned>()); active.sync(); }
    o[8] = r; tile.sync(); warp.sync();
    const auto part = cg::labeled_partition(warp, x % 3); o[9] = part.size() + part.thread_rank() * 64; o[10] = cg::reduce(part, x, cg::bit_xor<unsigned>());
    const auto half = cg::binary_partition(warp, (x & 4) != 0); o[11] = half.size(); o[12] = __float_as_uint(cg::reduce(warp, (float)(x & 1023), cg::plus<float>()));
    const auto small = cg::tiled_partition(block, 4); o[13] = small.size() + small.thread_rank(); o[14] = block.group_index().x + block.thread_index().x * 2; o[15] = (unsigned)cg::reduce(tile, (double)x, cg::less<double>());
}
