// Copies on the device, overlapping the start of others, by every name.
#include <cstdio>

int main()
{
    int host[8] = {1, 2, 3, 4, 5, 6, 7, 8}, *a, *b;
    cudaMalloc(&a, sizeof host);
    cudaMalloc(&b, sizeof host);
    cudaMemcpy(a, host, sizeof host, cudaMemcpyDefault);
    cudaMemcpy(b, a + 4, 4 * sizeof(int), cudaMemcpyDeviceToDevice);
    cudaMemcpyPeer(b + 4, 0, a, 0, 4 * sizeof(int));
    cudaMemcpyAsync(a, b, sizeof host, cudaMemcpyDeviceToDevice, 0);
    int other[8];
    cudaMemcpy(other, a, sizeof host, cudaMemcpyDeviceToHost);
    cudaMemcpy(host, other, sizeof host, cudaMemcpyHostToHost);
    for (int v : host) printf("%d ", v);
    cudaMemset(a, 0xFF, 8);
    cudaMemcpy(host, a, 12, cudaMemcpyDeviceToHost);
    printf("%d %d %d\n", host[0], host[1], host[2]);
    cudaFree(a);
    cudaFree(b);
    return 0;
}
/* prints
5 6 7 8 1 2 3 4 -1 -1 7
*/
