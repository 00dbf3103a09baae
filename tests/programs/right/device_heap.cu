// malloc and new on the device, across launches.
#include <cstdio>

__global__ void make(int** lists, int n)
{
    int* mine = (int*)malloc(n * sizeof(int));
    for (int k = 0; k < n; k++) mine[k] = threadIdx.x * k;
    lists[threadIdx.x] = mine;
}
__global__ void use(int** lists, int* out, int n)
{
    int sum = 0;
    for (int k = 0; k < n; k++) sum += lists[threadIdx.x][k];
    out[threadIdx.x] = sum;
    free(lists[threadIdx.x]);
}

int main()
{
    cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20);
    size_t heap;
    cudaDeviceGetLimit(&heap, cudaLimitMallocHeapSize);
    int **lists, *out, host[32];
    cudaMalloc(&lists, 32 * sizeof(int*));
    cudaMalloc(&out, sizeof host);
    make<<<1, 32>>>(lists, 10);
    use<<<1, 32>>>(lists, out, 10);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    printf("%zu %d %d\n", heap >> 20, host[1], host[31]);
    cudaFree(lists);
    cudaFree(out);
    return 0;
}
/* prints
16 45 1395
*/
