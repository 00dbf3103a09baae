// clock64 counts on; globaltimer too.
#include <cstdio>

__global__ void time(long long* out)
{
    long long start = clock64();
    float v = threadIdx.x;
    for (int k = 0; k < 100; k++) v = sqrtf(v + k);
    out[0] = clock64() - start;
    out[1] = v > 0;
}

int main()
{
    long long host[2], *out;
    cudaMalloc(&out, sizeof host);
    time<<<1, 1>>>(out);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    printf("%d %lld\n", host[0] > 0, host[1]);
    cudaFree(out);
    return 0;
}
/* prints
1 1
*/
