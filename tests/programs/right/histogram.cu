// Atomics in shared and in global memory.
#include <cstdio>
#include <vector>

__global__ void histogram(const unsigned char* data, int n, unsigned* bins)
{
    __shared__ unsigned local[256];
    for (int k = threadIdx.x; k < 256; k += blockDim.x) local[k] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[data[i]], 1);
    __syncthreads();
    for (int k = threadIdx.x; k < 256; k += blockDim.x) atomicAdd(&bins[k], local[k]);
}

int main()
{
    const int n = 100000;
    std::vector<unsigned char> data(n);
    for (int i = 0; i < n; i++) data[i] = i * 7 % 251;
    unsigned char* d;
    unsigned *bins, host[256], sum = 0;
    cudaMalloc(&d, n);
    cudaMalloc(&bins, sizeof host);
    cudaMemset(bins, 0, sizeof host);
    cudaMemcpy(d, data.data(), n, cudaMemcpyHostToDevice);
    histogram<<<8, 128>>>(d, n, bins);
    cudaMemcpy(host, bins, sizeof host, cudaMemcpyDeviceToHost);
    for (unsigned v : host) sum += v;
    printf("%u %u %u\n", sum, host[0], host[255]);
    cudaFree(d);
    cudaFree(bins);
    return 0;
}
/* prints
100000 399 0
*/
