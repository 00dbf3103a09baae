// Two streams use the same memory, and no event says which comes first; the third pair of calls is in order.
// finds: stream-race 23
// finds: stream-race 24
#include <cstdio>

__global__ void twice(float* x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}

int main()
{
    const int n = 1024;
    float *host, *x;
    cudaMallocHost(&host, n * sizeof(float));
    for (int i = 0; i < n; i++) host[i] = 1;
    cudaMalloc(&x, n * sizeof(float));
    cudaStream_t a, b;
    cudaStreamCreate(&a);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaMemcpyAsync(x, host, n * sizeof(float), cudaMemcpyHostToDevice, a);
    twice<<<4, 256, 0, b>>>(x, n);
    cudaMemcpyAsync(host, x, n * sizeof(float), cudaMemcpyDeviceToHost, a);
    cudaDeviceSynchronize();
    cudaEvent_t done;
    cudaEventCreate(&done);
    twice<<<2, 256, 0, a>>>(x, n / 2);
    twice<<<2, 256, 0, b>>>(x + n / 2, n / 2);  // other bytes
    cudaEventRecord(done, a);
    cudaStreamWaitEvent(b, done, 0);
    cudaMemcpyAsync(host, x, n * sizeof(float), cudaMemcpyDeviceToHost, b);
    cudaStreamSynchronize(b);
    printf("%g\n", host[0]);
    cudaEventDestroy(done);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
    cudaFree(x);
    cudaFreeHost(host);
    return 0;
}
/* prints
4
*/
