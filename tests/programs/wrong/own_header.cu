// The same mistake in a kernel of the program's own header, and in one behind it.
// finds: out-of-bounds 6 own_header.h
// finds: out-of-bounds 10
#include "own_header.h"

__global__ void refill(float* x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        x[i] = 2;
}

int main()
{
    float* x;
    cudaMalloc(&x, 512 * sizeof(float));
    fill<<<3, 256>>>(x, 512);
    refill<<<3, 256>>>(x, 512);
    cudaDeviceSynchronize();
    cudaFree(x);
    return 0;
}
