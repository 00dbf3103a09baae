// A float4 at an address that is no multiple of 16.
// finds: misaligned 5
// exit: 1
#include <cstdio>
__global__ void load(const float* x, float4* y) { *y = *(const float4*)(x + 1); }

int main()
{
    float *x, *y;
    cudaMalloc(&x, 64);
    cudaMalloc(&y, 64);
    cudaMemset(x, 0, 64);
    load<<<1, 1>>>(x, (float4*)y);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
/* prints
misaligned address
*/
