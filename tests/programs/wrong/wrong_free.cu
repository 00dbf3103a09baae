// Pinned memory given to cudaFree, and a pointer into the middle of an allocation.
// finds: invalid-free 11
// finds: invalid-free 12
#include <cstdio>

int main()
{
    int *pinned, *x;
    cudaMallocHost(&pinned, 128);
    cudaMalloc(&x, 128);
    printf("%s\n", cudaGetErrorName(cudaFree(pinned)));
    printf("%s\n", cudaGetErrorName(cudaFree(x + 1)));
    cudaFreeHost(pinned);
    cudaFree(x);
    return 0;
}
/* prints
cudaErrorInvalidValue
cudaErrorInvalidValue
*/
