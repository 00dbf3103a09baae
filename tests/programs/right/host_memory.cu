// Pinned, mapped and registered host memory, which kernels use where it lies.
#include <cstdio>
#include <cstdlib>

__global__ void twice(int* x, int n)
{
    int i = threadIdx.x;
    if (i < n) x[i] *= 2;
}

int main()
{
    int *pinned, *mapped, *seen;
    cudaMallocHost(&pinned, 8 * sizeof(int));
    cudaHostAlloc(&mapped, 8 * sizeof(int), cudaHostAllocMapped);
    for (int i = 0; i < 8; i++) pinned[i] = i, mapped[i] = 10 * i;
    cudaHostGetDevicePointer(&seen, mapped, 0);
    twice<<<1, 8>>>(seen, 8);
    twice<<<1, 8>>>(pinned, 8);
    cudaDeviceSynchronize();
    printf("%d %d\n", pinned[3], mapped[3]);
    int* own = (int*)malloc(1000 * sizeof(int));
    for (int i = 0; i < 1000; i++) own[i] = i;
    printf("%s\n", cudaGetErrorName(cudaHostRegister(own, 1000 * sizeof(int), cudaHostRegisterMapped)));
    cudaHostGetDevicePointer(&seen, own + 100, 0);
    twice<<<1, 8>>>(seen, 8);
    cudaDeviceSynchronize();
    printf("%d %d %d\n", own[99], own[100], own[107]);
    cudaHostUnregister(own);
    own[100]++;
    printf("%d %d\n", own[100], own[999]);
    free(own);
    cudaFreeHost(pinned);
    cudaFreeHost(mapped);
    return 0;
}
/* prints
6 60
cudaSuccess
99 200 214
201 999
*/
