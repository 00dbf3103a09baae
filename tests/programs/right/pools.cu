// Stream-ordered allocation.
#include <cstdio>

__global__ void fill(int* x, int v) { x[threadIdx.x] = v; }

int main()
{
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    int *x, host[4];
    for (int k = 0; k < 3; k++) {
        cudaMallocAsync(&x, sizeof host, stream);
        fill<<<1, 4, 0, stream>>>(x, k);
        cudaMemcpyAsync(host, x, sizeof host, cudaMemcpyDeviceToHost, stream);
        cudaFreeAsync(x, stream);
        cudaStreamSynchronize(stream);
        printf("%d ", host[3]);
    }
    cudaMemPool_t pool;
    cudaDeviceGetDefaultMemPool(&pool, 0);
    unsigned long long threshold = 1 << 20, read = 0;
    cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold);
    cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &read);
    printf("%llu\n", read);
    cudaStreamDestroy(stream);
    return 0;
}
/* prints
0 1 2 1048576
*/
