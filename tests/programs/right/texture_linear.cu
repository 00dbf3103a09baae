// A texture of linear memory, and a surface that is written.
#include <cstdio>

__global__ void reverse(cudaTextureObject_t in, cudaSurfaceObject_t out, int n)
{
    int i = threadIdx.x;
    if (i < n) surf1Dwrite(tex1Dfetch<int>(in, n - 1 - i), out, i * 4);
}

int main()
{
    const int n = 16;
    int host[n], *x;
    for (int i = 0; i < n; i++) host[i] = i * i;
    cudaMalloc(&x, sizeof host);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = x;
    resource.res.linear.desc = cudaCreateChannelDesc<int>();
    resource.res.linear.sizeInBytes = sizeof host;
    cudaTextureDesc how = {};
    how.readMode = cudaReadModeElementType;
    cudaTextureObject_t texture;
    cudaCreateTextureObject(&texture, &resource, &how, nullptr);
    cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
    cudaArray_t array;
    cudaMallocArray(&array, &format, n, 0, cudaArraySurfaceLoadStore);
    cudaResourceDesc target = {};
    target.resType = cudaResourceTypeArray;
    target.res.array.array = array;
    cudaSurfaceObject_t surface;
    cudaCreateSurfaceObject(&surface, &target);
    reverse<<<1, 32>>>(texture, surface, n);
    cudaMemcpyFromArray(host, array, 0, 0, sizeof host, cudaMemcpyDeviceToHost);
    printf("%d %d %s\n", host[0], host[15], cudaGetErrorName(cudaDeviceSynchronize()));
    cudaDestroyTextureObject(texture);
    cudaDestroySurfaceObject(surface);
    cudaFreeArray(array);
    cudaFree(x);
    return 0;
}
/* prints
225 0 cudaSuccess
*/
