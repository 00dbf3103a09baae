// Cluster groups: ranks, shared memory of the neighbours, and one barrier.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void __cluster_dims__(4, 1, 1) ring(const unsigned* in, unsigned* out)
{
    __shared__ unsigned s[128];
    const auto cluster = cg::this_cluster();
    const int t = threadIdx.x, rank = cluster.block_rank();
    s[t] = in[128 * rank + t];
    cluster.sync();
    const unsigned* next = cluster.map_shared_rank(s, (rank + 1) % cluster.num_blocks());
    out[blockIdx.x * 128 + t] = next[t] + cluster.query_shared_rank(next) + 10 * cluster.dim_blocks().x
        + 100 * cluster.thread_rank() + 100000 * cg::cluster_group::num_threads();
    cluster.barrier_wait(cluster.barrier_arrive());
}
