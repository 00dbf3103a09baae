// Events: order, time between two of them, what is not recorded.
#include <cstdio>
#include <vector>

__global__ void spin(float* x, int rounds)
{
    float v = x[threadIdx.x];
    for (int k = 0; k < rounds; k++) v = v * 1.0001f + 0.5f;
    x[threadIdx.x] = v;
}

int main()
{
    float* x;
    cudaMalloc(&x, 256 * sizeof(float));
    cudaMemset(x, 0, 256 * sizeof(float));
    cudaEvent_t start, middle, end, quiet;
    cudaEventCreate(&start);
    cudaEventCreate(&middle);
    cudaEventCreate(&end);
    cudaEventCreateWithFlags(&quiet, cudaEventDisableTiming);
    float first, second;
    printf("%s\n", cudaGetErrorName(cudaEventElapsedTime(&first, start, end)));
    cudaEventRecord(start);
    spin<<<1, 256>>>(x, 100);
    cudaEventRecord(middle);
    spin<<<1, 256>>>(x, 100000);
    cudaEventRecord(end);
    cudaEventRecord(quiet);
    cudaEventSynchronize(end);
    cudaEventElapsedTime(&first, start, middle);
    cudaEventElapsedTime(&second, middle, end);
    printf("%d %d %s\n", first > 0, second > 10 * first, cudaGetErrorName(cudaEventQuery(end)));
    printf("%s\n", cudaGetErrorName(cudaEventElapsedTime(&first, start, quiet)));
    cudaEventDestroy(start);
    cudaEventDestroy(middle);
    cudaEventDestroy(end);
    cudaEventDestroy(quiet);
    cudaFree(x);
    return 0;
}
/* prints
cudaErrorInvalidResourceHandle
1 1 cudaSuccess
cudaErrorInvalidResourceHandle
*/
