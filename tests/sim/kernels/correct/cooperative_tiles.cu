// Cooperative groups: the block and tiles of eight.
// launch: grid=2 block=64
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[64];
    const auto block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<8>(block);
    s[t] = x[i];
    block.sync();
    float v = s[(t + 8) & 63];
    block.sync();
    s[t] = v;
    tile.sync();
    v += s[(t & ~7) + (7 - (t & 7))];
    y[i] = cg::reduce(tile, v, cg::plus<float>());
}
