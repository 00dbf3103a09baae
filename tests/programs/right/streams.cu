// Copies and kernels of two streams, one waiting for the other's event. Overlap is seen in predicted times.
#include <cstdio>

__global__ void scale(float* x, float by, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] *= by;
}

int main()
{
    const int n = 1 << 18;
    float *host, *x, *y;
    cudaMallocHost(&host, 2 * n * sizeof(float));
    for (int i = 0; i < 2 * n; i++) host[i] = 1;
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, n * sizeof(float));
    cudaStream_t a, b;
    cudaStreamCreate(&a);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaEvent_t copied, start, end;
    cudaEventCreate(&copied);
    cudaEventCreate(&start);
    cudaEventCreate(&end);
    cudaEventRecord(start, a);
    cudaMemcpyAsync(x, host, n * sizeof(float), cudaMemcpyHostToDevice, a);
    cudaEventRecord(copied, a);
    cudaStreamWaitEvent(b, copied, 0);
    cudaMemcpyAsync(y, host + n, n * sizeof(float), cudaMemcpyHostToDevice, b);
    scale<<<64, 256, 0, a>>>(x, 2, n);
    scale<<<64, 256, 0, b>>>(y, 3, n);
    cudaMemcpyAsync(host, x, n * sizeof(float), cudaMemcpyDeviceToHost, a);
    cudaMemcpyAsync(host + n, y, n * sizeof(float), cudaMemcpyDeviceToHost, b);
    cudaEventRecord(end, b);
    cudaStreamSynchronize(a);
    cudaStreamSynchronize(b);
    float ms;
    cudaEventElapsedTime(&ms, start, end);
    float apart = 4 * n * sizeof(float) / 25e6f;  // ms of four copies, one after the other
    printf("%g %g %s\n", host[5], host[n + 5], cudaGetErrorName(cudaStreamQuery(a)));
    printf("%d\n", ms > apart / 2 && ms < 0.9f * apart);
    unsigned flags;
    cudaStreamGetFlags(b, &flags);
    printf("%u\n", flags);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
    cudaEventDestroy(copied);
    cudaEventDestroy(start);
    cudaEventDestroy(end);
    cudaFree(x);
    cudaFree(y);
    cudaFreeHost(host);
    return 0;
}
/* prints
2 3 cudaSuccess
1
1
*/
