// A sum is added up in memory that nobody set to 0; and a kernel reads behind what was copied in. Quick.
// finds: global-uninitialized 27
// finds: global-uninitialized 28
#include <cstdio>

__global__ void sum(const float* x, float* total, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(total, x[i]);
}

__global__ void shift(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i + 1];
}

int main()
{
    const int n = 256;
    float host[n] = {}, *x, *y, *total;
    cudaMalloc(&x, (n + 1) * sizeof(float));
    cudaMalloc(&y, n * sizeof(float));
    cudaMalloc(&total, sizeof(float));
    cudaMemcpy(x, host, n * sizeof(float), cudaMemcpyHostToDevice);
    shift<<<1, n>>>(x, y, n - 1);
    sum<<<1, n>>>(x, total, n);
    shift<<<1, n>>>(x, y, n);
    sum<<<1, n>>>(x, total, n);
    cudaFree(x);
    cudaFree(y);
    cudaFree(total);
    return 0;
}
