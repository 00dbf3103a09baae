// One thread too many. Quick.
// finds: out-of-bounds 8
#include <cstdio>

__global__ void scale(float* x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) x[i] = 2 * i;
}

int main()
{
    const int n = 1000;
    float* d_x;
    cudaMalloc(&d_x, n * sizeof(float));
    for (int k = 0; k < 3; k++) scale<<<(n + 256) / 256, 256>>>(d_x, n);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    cudaFree(d_x);
    return 0;
}
/* prints
no error
*/
