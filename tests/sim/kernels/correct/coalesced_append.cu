// The lanes of a branch share one atomicAdd.
// launch: grid=2 block=64
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (x[i] > 0.4f) {
        const auto active = cg::coalesced_threads();
        int first = 0;
        if (active.thread_rank() == 0) first = atomicAdd(state, (int)active.size());
        first = active.shfl(first, 0);
        y[first + active.thread_rank()] = x[i];
    }
}
