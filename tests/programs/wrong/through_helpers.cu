// Wrong in a function of the device that a library-like wrapper of the host launches.
// finds: out-of-bounds 6
#include <cstdio>

__device__ int at(const int* x, int k) { return k < 0 ? 0 :
    x[k]; }
__global__ void next(const int* x, int* y, int n)
{
    int i = threadIdx.x;
    if (i < n) y[i] = at(x, i + 1);
}

void launch(const int* x, int* y, int n) { next<<<1, 128>>>(x, y, n); }

int main()
{
    int *x, *y;
    cudaMalloc(&x, 400);
    cudaMalloc(&y, 400);
    cudaMemset(x, 0, 400);
    launch(x, y, 100);
    cudaDeviceSynchronize();
    cudaFree(x);
    cudaFree(y);
    return 0;
}
