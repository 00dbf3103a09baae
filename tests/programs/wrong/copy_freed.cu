// Copied from memory that was freed.
// finds: copy-freed 10
#include <cstdio>

int main()
{
    int host[4] = {}, *x;
    cudaMalloc(&x, sizeof host);
    cudaFree(x);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    return 0;
}
