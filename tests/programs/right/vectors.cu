// float4, half, and double-precision arithmetic through structures.
#include <cstdio>
#include <cuda_fp16.h>

__global__ void mix(const float4* a, __half2* h, double* d)
{
    float4 v = a[threadIdx.x];
    h[threadIdx.x] = __floats2half2_rn(v.x + v.y, v.z * v.w);
    d[threadIdx.x] = sqrt(double(v.w));
}

int main()
{
    float4 host[2] = {{1, 2, 3, 4}, {5, 6, 7, 9}}, *a;
    __half2 *h, halves[2];
    double *d, doubles[2];
    cudaMalloc(&a, sizeof host);
    cudaMalloc(&h, sizeof halves);
    cudaMalloc(&d, sizeof doubles);
    cudaMemcpy(a, host, sizeof host, cudaMemcpyHostToDevice);
    mix<<<1, 2>>>(a, h, d);
    cudaMemcpy(halves, h, sizeof halves, cudaMemcpyDeviceToHost);
    cudaMemcpy(doubles, d, sizeof doubles, cudaMemcpyDeviceToHost);
    printf("%g %g %g %g\n", __low2float(halves[0]), __high2float(halves[0]), __high2float(halves[1]), doubles[1]);
    cudaFree(a);
    cudaFree(h);
    cudaFree(d);
    return 0;
}
/* prints
3 12 63 3
*/
