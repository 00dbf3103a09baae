// malloc and new on the device, across launches; a deep recursion. Both have limits that a program sets.
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

__device__ int depth(const int* next, int i)
{
    volatile int local[64];
    local[i & 63] = 1;
    return next[i] < 0 ? 0 : depth(next, next[i]) + local[i & 63];
}
__global__ void descend(const int* next, int* levels) { *levels = depth(next, 0); }

void recursion()
{
    const int n = 201;
    int host[n], *next, *levels;
    for (int i = 0; i < n; i++) host[i] = i + 1 < n ? i + 1 : -1;
    cudaMalloc(&next, sizeof host);
    cudaMalloc(&levels, sizeof(int));
    cudaMemcpy(next, host, sizeof host, cudaMemcpyHostToDevice);
    printf("%s\n", cudaGetErrorName(cudaDeviceSetLimit(cudaLimitStackSize, 1 << 20)));
    cudaDeviceSetLimit(cudaLimitStackSize, 128 << 10);
    size_t stack;
    cudaDeviceGetLimit(&stack, cudaLimitStackSize);
    descend<<<1, 1>>>(next, levels);
    cudaMemcpy(host, levels, sizeof(int), cudaMemcpyDeviceToHost);
    printf("%zu %d\n", stack, host[0]);
    cudaFree(next);
    cudaFree(levels);
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
    recursion();
    return 0;
}
/* prints
16 45 1395
cudaErrorInvalidValue
131072 200
*/
