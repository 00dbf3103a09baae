// A kernel that writes what the host has freed. Quick.
// finds: use-after-free 4
#include <cstdio>
__global__ void fill(int* x) { x[threadIdx.x] = 1; }

int main()
{
    int* x;
    cudaMalloc(&x, 128);
    cudaFree(x);
    fill<<<1, 32>>>(x);
    cudaDeviceSynchronize();
    return 0;
}
