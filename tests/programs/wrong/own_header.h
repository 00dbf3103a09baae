// Kernels of a header: what is found in one is told on its lines, and in the program on the program's.
#pragma once
__global__ void fill(float* x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) x[i] = 1;
}
