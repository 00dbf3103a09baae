// All blocks of a grid meet.
#include <cooperative_groups.h>
#include <cstdio>
namespace cg = cooperative_groups;

__global__ void steps(int* x, int n)
{
    auto grid = cg::this_grid();
    int i = grid.thread_rank();
    for (int k = 1; k < n; k *= 2) {
        int other = i >= k ? x[i - k] : 0;
        grid.sync();
        x[i] += other;
        grid.sync();
    }
}

int main()
{
    int n = 64, *x, host[64];
    cudaMalloc(&x, sizeof host);
    for (int& v : host) v = 1;
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    void* arguments[] = {&x, &n};
    printf("%s\n", cudaGetErrorName(cudaLaunchCooperativeKernel((void*)steps, 2, 32, arguments, 0, 0)));
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    printf("%d %d %d\n", host[0], host[40], host[63]);
    cudaFree(x);
    return 0;
}
/* prints
cudaSuccess
1 41 64
*/
