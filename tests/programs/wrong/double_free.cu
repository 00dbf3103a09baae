// Freed twice.
// finds: double-free 10
#include <cstdio>

int main()
{
    int* x;
    cudaMalloc(&x, 128);
    cudaFree(x);
    printf("%s\n", cudaGetErrorName(cudaFree(x)));
    return 0;
}
/* prints
cudaErrorInvalidValue
*/
