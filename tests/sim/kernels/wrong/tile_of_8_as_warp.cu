// The tile's barrier is not the warp's.
// launch: grid=1 block=32
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    __shared__ float s[32];
    const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    s[t] = x[i];  // expect: RACE
    if (t < 16) tile.sync();
    y[i] = s[31 - t];  // expect: RACE
}
