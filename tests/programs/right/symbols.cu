// Constant and global variables: copied to, copied from, asked for. Quick.
#include <cstdio>

__constant__ float weights[4];
__device__ int counter = 5;
__device__ int table[8] = {1, 2, 3};

__global__ void use(float* out)
{
    out[threadIdx.x] = weights[threadIdx.x] * 2 + table[threadIdx.x];
    atomicAdd(&counter, 1);
}

int main()
{
    float host[4] = {1, 2, 3, 4}, out[4], *d;
    cudaMemcpyToSymbol(weights, host, sizeof host);
    cudaMalloc(&d, sizeof out);
    use<<<1, 4>>>(d);
    cudaMemcpy(out, d, sizeof out, cudaMemcpyDeviceToHost);
    printf("%g %g %g %g\n", out[0], out[1], out[2], out[3]);
    int value;
    cudaMemcpyFromSymbol(&value, counter, sizeof value);
    printf("%d\n", value);
    value = 40;
    cudaMemcpyToSymbol(table, &value, sizeof value, 3 * sizeof value);
    use<<<1, 4>>>(d);
    cudaMemcpy(out, d, sizeof out, cudaMemcpyDeviceToHost);
    printf("%g\n", out[3]);
    void* address;
    size_t bytes;
    cudaGetSymbolAddress(&address, table);
    cudaGetSymbolSize(&bytes, table);
    cudaMemcpy(&value, (int*)address + 3, sizeof value, cudaMemcpyDeviceToHost);
    printf("%zu %d %s\n", bytes, value, cudaGetErrorName(cudaMemcpyToSymbol(weights, host, 20)));
    cudaFree(d);
    return 0;
}
/* prints
3 6 9 8
9
48
32 40 cudaErrorInvalidValue
*/
