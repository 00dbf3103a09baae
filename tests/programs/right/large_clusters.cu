// large_clusters.cu: sixteen blocks that write into each other's shared memory, and one copy for all of them.
// gpu: h200
// arch: compute_90a
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

__global__ void ring(int* out)
{
    __shared__ int from_left;
    cg::cluster_group cluster = cg::this_cluster();
    const unsigned rank = cluster.block_rank(), blocks = cluster.num_blocks();
    cluster.sync();
    if (threadIdx.x == 0) *cluster.map_shared_rank(&from_left, (rank + 1) % blocks) = 100 * blockIdx.x + rank;
    cluster.sync();
    if (threadIdx.x == 0) out[blockIdx.x] = from_left;
}

__global__ void spread(const int* in, int* out)
{
    __shared__ alignas(128) int tile[64];
    __shared__ unsigned long long full;
    const unsigned bar = __cvta_generic_to_shared(&full), to = __cvta_generic_to_shared(tile);
    cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" :: "r"(bar) : "memory");
    }
    cluster.sync();
    if (threadIdx.x == 0 && cluster.block_rank() == 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 256, [%2], %3;"
                     :: "r"(to), "l"(in), "r"(bar), "h"(short(0xffff)) : "memory");
    asm volatile("{\n.reg .pred p;\nwait:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra wait;\n}" :: "r"(bar) : "memory");
    out[64 * blockIdx.x + threadIdx.x] = tile[threadIdx.x];
}

int main()
{
    int *out, *in, found[32], most, numbers[64];
    cudaMalloc(&out, 16 * 64 * sizeof(int));
    cudaMalloc(&in, sizeof numbers);
    for (int k = 0; k < 64; ++k) numbers[k] = 7 * k;
    cudaMemcpy(in, numbers, sizeof numbers, cudaMemcpyHostToDevice);
    cudaLaunchConfig_t config{};
    config.gridDim = 32;
    config.blockDim = 32;
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {16, 1, 1};
    config.attrs = &attribute;
    config.numAttrs = 1;
    cudaOccupancyMaxPotentialClusterSize(&most, ring, &config);
    printf("%d", most);
    for (auto kernel : {(const void*)ring, (const void*)spread}) cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    cudaOccupancyMaxPotentialClusterSize(&most, ring, &config);
    printf(" %d\n", most);
    printf("%s\n", cudaGetErrorName(cudaLaunchKernelEx(&config, ring, out)));
    cudaMemcpy(found, out, sizeof found, cudaMemcpyDeviceToHost);
    printf("%d %d %d\n", found[0], found[15], found[31]);
    config.gridDim = 16;
    config.blockDim = 64;
    printf("%s\n", cudaGetErrorName(cudaLaunchKernelEx(&config, spread, (const int*)in, out)));
    cudaMemcpy(found, out + 64 * 15, sizeof found, cudaMemcpyDeviceToHost);
    printf("%d %d\n", found[1], found[31]);
    cudaFree(in);
    cudaFree(out);
    return 0;
}
/* prints
8 16
cudaSuccess
1515 1414 3014
cudaSuccess
7 217
*/
