// Dynamic shared memory by size of the launch.
#include <cstdio>

__global__ void reverse(int* x, int n)
{
    extern __shared__ int s[];
    int i = threadIdx.x;
    s[i] = x[i];
    __syncthreads();
    x[i] = s[n - 1 - i];
}

int main()
{
    const int n = 64;
    int host[n], *x;
    for (int i = 0; i < n; i++) host[i] = i;
    cudaMalloc(&x, sizeof host);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    reverse<<<1, n, n * sizeof(int)>>>(x, n);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    printf("%d %d\n", host[0], host[63]);
    cudaFree(x);
    return 0;
}
/* prints
63 0
*/
