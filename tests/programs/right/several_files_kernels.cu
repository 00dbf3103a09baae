// part of several_files.cu
#include "several_files.h"

__global__ void twice(int* x) { *x *= 2; }

int doubled(int x)
{
    int* d;
    cudaMalloc(&d, sizeof x);
    cudaMemcpy(d, &x, sizeof x, cudaMemcpyHostToDevice);
    twice<<<1, 1>>>(d);
    cudaMemcpy(&x, d, sizeof x, cudaMemcpyDeviceToHost);
    cudaFree(d);
    return x;
}
