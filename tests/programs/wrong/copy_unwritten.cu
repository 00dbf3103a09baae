// The kernel was forgotten: what is copied back was never written.
// finds: copy-uninitialized 9
#include <cstdio>

int main()
{
    int host[4], *x;
    cudaMalloc(&x, sizeof host);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    cudaFree(x);
    return 0;
}
