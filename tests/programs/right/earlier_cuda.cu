// A program of the time before CUDA 13: fields and calls that it has no more.
// with: earlier_cuda_host.c
#include <cstdio>

extern "C" int waits_in_c(void);

__global__ void fill(int* x) { x[threadIdx.x] = threadIdx.x; }

int main()
{
    cudaDeviceProp p;
    cudaGetDeviceProperties(&p, 0);
    printf("%d %d %d %d\n", p.clockRate, p.computeMode, p.kernelExecTimeoutEnabled, p.deviceOverlap);
    int* x;
    cudaMallocManaged(&x, 128);
    cudaMemAdvise(x, 128, cudaMemAdviseSetPreferredLocation, 0);
    cudaMemPrefetchAsync(x, 128, 0);
    fill<<<1, 32>>>(x);
    cudaThreadSynchronize();
    cudaMemPrefetchAsync(x, 128, cudaCpuDeviceId, 0);
    printf("%d %d\n", x[31], waits_in_c());
    printf("%d %d %d\n", CUB_MAX(3, 5), CUB_QUOTIENT_CEILING(10, 4), CUB_ROUND_UP_NEAREST(10, 4));
    cudaFree(x);
    return 0;
}
/* prints
1410000 0 0 1
31 0
5 3 12
*/
