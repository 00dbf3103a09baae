// Managed memory is read before the kernel is through. Quick.
// finds: early-access 12
#include <cstdio>

__global__ void set(int* x) { *x = 7; }

int main()
{
    int* x;
    cudaMallocManaged(&x, sizeof(int));
    set<<<1, 1>>>(x);
    printf("%d\n", *x);
    cudaDeviceSynchronize();
    cudaFree(x);
    return 0;
}
/* prints
7
*/
