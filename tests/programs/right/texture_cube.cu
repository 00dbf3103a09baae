// Cube maps: a direction meets one of six faces; layers of cubes; faces as layers of a surface.
#include <cstdio>
#include <vector>

__global__ void look(cudaTextureObject_t cube, cudaTextureObject_t cubes, const float3* ways, float* one, float* two, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    one[i] = texCubemap<float>(cube, ways[i].x, ways[i].y, ways[i].z);
    two[i] = texCubemapLayered<float>(cubes, ways[i].x, ways[i].y, ways[i].z, 1);
}
__global__ void paint(cudaSurfaceObject_t faces) {
    surfCubemapwrite(float(100 * blockIdx.x), faces, int(threadIdx.x * sizeof(float)), int(threadIdx.y), int(blockIdx.x));
}

cudaArray_t make(const std::vector<float>& texels, int side, int faces, unsigned flags) {
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaExtent extent = make_cudaExtent(side, side, faces);
    if (cudaMalloc3DArray(&array, &format, extent, flags) != cudaSuccess) printf("no array\n");
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(const_cast<float*>(texels.data()), side * sizeof(float), side, side);
    copy.dstArray = array, copy.extent = extent, copy.kind = cudaMemcpyHostToDevice;
    cudaMemcpy3D(&copy);
    return array;
}

cudaTextureObject_t texture(cudaArray_t array) {
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray, resource.res.array.array = array;
    cudaTextureDesc how = {};
    how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
    how.filterMode = cudaFilterModeLinear, how.readMode = cudaReadModeElementType, how.normalizedCoords = 1;
    cudaTextureObject_t object;
    cudaCreateTextureObject(&object, &resource, &how, nullptr);
    return object;
}

int main() {
    const int side = 4, n = 8;
    std::vector<float> texels(12 * side * side);
    for (size_t i = 0; i < texels.size(); i++) texels[i] = i / (side * side) * 10 + i % side;
    cudaArray_t cube = make(texels, side, 6, cudaArrayCubemap | cudaArraySurfaceLoadStore);
    cudaArray_t cubes = make(texels, side, 12, cudaArrayCubemap | cudaArrayLayered);
    cudaTextureObject_t object = texture(cube), layered = texture(cubes);
    float3* ways;
    float *one, *two;
    cudaMallocManaged(&ways, n * sizeof(float3));
    cudaMallocManaged(&one, n * sizeof(float));
    cudaMallocManaged(&two, n * sizeof(float));
    float3 given[n] = {{1, 0, 0}, {-2, 0, 0}, {0, 3, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -5}, {1, 0, -0.25f}, {0.25f, 0.5f, 1}};
    for (int i = 0; i < n; i++) ways[i] = given[i];
    look<<<1, 32>>>(object, layered, ways, one, two, n);
    cudaDeviceSynchronize();
    for (int i = 0; i < n; i++) printf("%g %g\n", one[i], two[i]);

    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray, resource.res.array.array = cube;
    cudaSurfaceObject_t surface;
    cudaCreateSurfaceObject(&surface, &resource);
    paint<<<6, dim3(side, side)>>>(surface);
    look<<<1, 32>>>(object, layered, ways, one, two, n);
    cudaDeviceSynchronize();
    for (int i = 0; i < n; i++) printf("%g ", one[i]);
    printf("\n");
    cudaArray_t wrong;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    printf("%s\n", cudaGetErrorName(cudaMalloc3DArray(&wrong, &format, make_cudaExtent(4, 4, 5), cudaArrayCubemap)));
    cudaDestroySurfaceObject(surface);
    cudaDestroyTextureObject(object);
    cudaDestroyTextureObject(layered);
    cudaFreeArray(cube);
    cudaFreeArray(cubes);
    cudaFree(ways), cudaFree(one), cudaFree(two);
}
/* prints
1.5 61.5
11.5 71.5
21.5 81.5
31.5 91.5
41.5 101.5
51.5 111.5
2 62
42 102
0 100 200 300 400 500 0 400 
cudaErrorInvalidValue
*/
