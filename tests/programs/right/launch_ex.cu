// Launches by function calls, with attributes.
#include <cstdio>

__global__ void number(int* out, int offset) { out[blockIdx.x * blockDim.x + threadIdx.x] = offset + blockIdx.x; }

int main()
{
    int *x, host[64], offset = 5;
    cudaMalloc(&x, sizeof host);
    cudaLaunchConfig_t config = {};
    config.gridDim = 2;
    config.blockDim = 32;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributePriority;
    attribute.val.priority = 0;
    config.attrs = &attribute;
    config.numAttrs = 1;
    printf("%s\n", cudaGetErrorName(cudaLaunchKernelEx(&config, number, x, 10)));
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    printf("%d %d\n", host[0], host[63]);
    void* arguments[] = {&x, &offset};
    cudaLaunchKernel((const void*)number, dim3(2), dim3(32), arguments, 0, 0);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDefault);
    printf("%d %d\n", host[0], host[63]);
    const char* name;
    cudaFuncGetName(&name, number);
    printf("%s\n", name);
    cudaFree(x);
    return 0;
}
/* prints
cudaSuccess
10 11
5 6
_Z6numberPii
*/
