// A texture of an array: filtered, with normalized coordinates.
#include <cstdio>

__global__ void look(cudaTextureObject_t t, float* out)
{
    out[0] = tex2D<float>(t, 0.125f, 0.125f);
    out[1] = tex2D<float>(t, 0.25f, 0.125f);
    out[2] = tex2D<float>(t, 5.0f, 0.875f);
}

int main()
{
    float texels[4][4], host[3], *out;
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 4; x++) texels[y][x] = 10 * y + x;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    cudaMallocArray(&array, &format, 4, 4);
    cudaMemcpy2DToArray(array, 0, 0, texels, sizeof texels[0], sizeof texels[0], 4, cudaMemcpyHostToDevice);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc how = {};
    how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
    how.filterMode = cudaFilterModeLinear;
    how.readMode = cudaReadModeElementType;
    how.normalizedCoords = 1;
    cudaTextureObject_t texture;
    printf("%s\n", cudaGetErrorName(cudaCreateTextureObject(&texture, &resource, &how, nullptr)));
    cudaMalloc(&out, sizeof host);
    look<<<1, 1>>>(texture, out);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    printf("%g %g %g\n", host[0], host[1], host[2]);
    cudaDestroyTextureObject(texture);
    cudaFreeArray(array);
    cudaFree(out);
    return 0;
}
/* prints
cudaSuccess
0 0.5 33
*/
