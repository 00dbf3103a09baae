// Attributes of kernels, dynamic shared memory beyond 48 KB, occupancy.
#include <cstdio>

extern __shared__ float dynamic[];
__global__ void __launch_bounds__(256) big(float* out, int n)
{
    __shared__ float fixed[64];
    for (int i = threadIdx.x; i < n; i += blockDim.x) dynamic[i] = i;
    if (threadIdx.x < 64) fixed[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) *out = dynamic[n - 1] + fixed[63];
}
__global__ void plain(int* x) { x[threadIdx.x] = 1; }

int main()
{
    cudaFuncAttributes about;
    printf("%s\n", cudaGetErrorName(cudaFuncGetAttributes(&about, big)));
    printf("%zu %d %d\n", about.sharedSizeBytes, about.maxThreadsPerBlock, about.numRegs > 0);
    const int n = 20000;
    printf("%s\n", cudaGetErrorName(cudaFuncSetAttribute(big, cudaFuncAttributeMaxDynamicSharedMemorySize, n * sizeof(float))));
    printf("%s\n", cudaGetErrorName(cudaFuncSetAttribute(big, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20)));
    cudaGetLastError();
    float *out, host;
    cudaMalloc(&out, sizeof(float));
    big<<<1, 256, n * sizeof(float)>>>(out, n);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    cudaMemcpy(&host, out, sizeof host, cudaMemcpyDeviceToHost);
    printf("%g\n", host);
    int blocks, least, block;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, plain, 1024, 0);
    printf("%d", blocks);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, big, 256, 80000);
    printf(" %d", blocks);
    cudaOccupancyMaxPotentialBlockSize(&least, &block, plain, 0, 0);
    printf(" %d %d\n", least, block);
    cudaFree(out);
    return 0;
}
/* prints
cudaSuccess
256 256 1
cudaSuccess
cudaErrorInvalidValue
cudaSuccess
20062
2 2 216 1024
*/
