// A host pointer where the device's is asked for.
// finds: copy-pointer 9
#include <cstdio>

int main()
{
    int host[4] = {}, *x;
    cudaMalloc(&x, sizeof host);
    printf("%s\n", cudaGetErrorName(cudaMemcpy(host, x, sizeof host, cudaMemcpyHostToDevice)));
    cudaFree(x);
    return 0;
}
/* prints
cudaErrorInvalidValue
*/
