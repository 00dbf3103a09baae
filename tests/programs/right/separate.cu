// Two files that are compiled by themselves and linked: device functions, variables and constants of one are used by the other.
// options: -rdc=true
// with: separate_parts.cu
#include <cstdio>
#include "separate.h"

__device__ int counter;
static __device__ float factor = 2;  // the other file has one of this name too

__global__ void fill(float* x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = tripled(static_cast<float>(i)) * factor + table[i % 4];
    atomicAdd(&counter, 1);
}

int main()
{
    float *x, host[64], values[4] = {1, 2, 3, 4};
    cudaMalloc(&x, sizeof host);
    cudaMemcpyToSymbol(table, values, sizeof values);
    fill<<<2, 32>>>(x, 64);
    add_to_all(x, 64);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    int count;
    cudaMemcpyFromSymbol(&count, counter, sizeof count);
    printf("%g %g %d %d\n", host[0], host[63], count, shared_by_all[1]);
    cudaFree(x);
    return 0;
}
/* prints
the other file sees 64
65 446 64 8
*/
