// Blocks add to one place without atomics.
// finds: race 7
// finds: race 7
#include <cstdio>
__global__ void count(int* total)
{
    if (threadIdx.x == 0) *total += 1;
}

int main()
{
    int* total;
    cudaMalloc(&total, sizeof(int));
    cudaMemset(total, 0, sizeof(int));
    count<<<8, 32>>>(total);
    cudaDeviceSynchronize();
    cudaFree(total);
    return 0;
}
