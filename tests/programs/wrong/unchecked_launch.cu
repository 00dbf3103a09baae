// A launch that no GPU takes, and nobody asks. Quick.
// finds: unchecked-launch 11
#include <cstdio>

__global__ void set(int* x) { x[threadIdx.x] = 7; }

int main()
{
    int* x;
    cudaMalloc(&x, 2048 * sizeof(int));
    set<<<1, 2048>>>(x);
    cudaDeviceSynchronize();
    cudaFree(x);
    return 0;
}
