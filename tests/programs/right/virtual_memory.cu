// A vector that grows in place: addresses are reserved, and memory is put at them piece by piece.
// options: -lcuda
#include <cuda.h>
#include <cstdio>

__global__ void fill(int* x, int from, int to)
{
    int i = from + blockIdx.x * blockDim.x + threadIdx.x;
    if (i < to) x[i] = i;
}

int main()
{
    int can = 0;
    cuInit(0);
    cudaFree(0);
    cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0);
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    size_t piece = 0;
    cuMemGetAllocationGranularity(&piece, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    printf("%d %zu\n", can, piece);

    CUdeviceptr start;
    printf("%d\n", cuMemAddressReserve(&start, 2 * piece, 0, 0, 0));
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    int n = piece / sizeof(int);
    CUmemGenericAllocationHandle handles[2];
    for (int k = 0; k < 2; k++) {
        printf("%d", cuMemCreate(&handles[k], piece, &properties, 0));
        printf(" %d", cuMemMap(start + k * piece, piece, 0, handles[k], 0));
        printf(" %d\n", cuMemSetAccess(start + k * piece, piece, &access, 1));
        cuMemRelease(handles[k]);  // the mapping keeps it
        fill<<<n / 256, 256>>>((int*)start, k * n, (k + 1) * n);
    }
    int last;
    cudaMemcpy(&last, (int*)start + 2 * n - 1, sizeof last, cudaMemcpyDeviceToHost);
    printf("%d\n", last == 2 * n - 1);

    CUmemGenericAllocationHandle found;
    printf("%d", cuMemRetainAllocationHandle(&found, (void*)(start + piece + 8)));
    printf(" %d\n", found == handles[1]);
    cuMemRelease(found);
    printf("%d", cuMemMap(start, piece, 0, handles[0], 0) == CUDA_ERROR_INVALID_VALUE);  // something is there
    printf(" %d", cuMemAddressFree(start, 2 * piece) == CUDA_ERROR_INVALID_VALUE);      // still mapped
    printf(" %d", cuMemAddressReserve(&found, piece + 1, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    printf(" %d", cuMemUnmap(start, 2 * piece));
    printf(" %d\n", cuMemAddressFree(start, 2 * piece));
    return 0;
}
/* prints
1 2097152
0
0 0 0
0 0 0
1
0 1
1 1 1 0 0
*/
