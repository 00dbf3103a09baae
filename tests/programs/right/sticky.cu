// A kernel's fault loses the device: every call says so from then on.
// finds: out-of-bounds
// exit: 3
#include <cstdio>

__global__ void fault(int* p) { *p = 1; }

int main()
{
    int* p;
    cudaMalloc(&p, 4);
    fault<<<1, 1>>>((int*)16);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    printf("%s\n", cudaGetErrorName(cudaMalloc(&p, 4)));
    printf("%s %s\n", cudaGetErrorName(cudaGetLastError()), cudaGetErrorName(cudaGetLastError()));
    return 3;
}
/* prints
cudaSuccess
an illegal memory access was encountered
cudaErrorIllegalAddress
cudaErrorIllegalAddress cudaErrorIllegalAddress
*/
