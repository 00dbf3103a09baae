// Groups of several warps, by the names that they had until CUDA 12 and by those of today.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include <cstdio>

namespace cg = cooperative_groups;
const int threads = 256;

template <int Size>
__global__ void sums_as_before(const int* values, int* sums)
{
    __shared__ cg::experimental::block_tile_memory<sizeof(int), threads> scratch;
    auto block = cg::experimental::this_thread_block(scratch);
    auto group = cg::experimental::tiled_partition<Size>(block);
    int sum = cg::reduce(group, values[block.thread_rank()], cg::plus<int>());
    if (group.thread_rank() == 0) sums[group.meta_group_rank()] = sum;
}

template <int Size>
__global__ void sums_of_today(const int* values, int* sums)
{
    __shared__ cg::block_tile_memory<threads> scratch;
    auto block = cg::this_thread_block(scratch);
    auto group = cg::tiled_partition<Size>(block);
    int sum = cg::reduce(group, values[block.thread_rank()], cg::plus<int>());
    if (group.thread_rank() == 0) sums[group.meta_group_rank()] = sum;
}

template <int Size>
void show(int* values, int* sums)
{
    for (int earlier = 1; earlier >= 0; earlier--) {
        cudaMemset(sums, 0, threads / Size * sizeof(int));
        if (earlier)
            sums_as_before<Size><<<1, threads>>>(values, sums);
        else
            sums_of_today<Size><<<1, threads>>>(values, sums);
        cudaDeviceSynchronize();
        printf("groups of %d:", Size);
        for (int i = 0; i < threads / Size; i++) printf(" %d", sums[i]);
        printf("\n");
    }
}

int main()
{
    int *values, *sums;
    cudaMallocManaged(&values, threads * sizeof(int));
    cudaMallocManaged(&sums, threads * sizeof(int));
    for (int i = 0; i < threads; i++) values[i] = i;
    show<64>(values, sums);
    show<128>(values, sums);
    cudaFree(values);
    cudaFree(sums);
    return 0;
}
/* prints
groups of 64: 2016 6112 10208 14304
groups of 64: 2016 6112 10208 14304
groups of 128: 8128 24512
groups of 128: 8128 24512
*/
