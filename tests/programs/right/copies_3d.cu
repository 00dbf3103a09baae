// Boxes: pitched memory of three dimensions, and an array.
#include <cstdio>

__global__ void mark(cudaPitchedPtr p, int width, int height, int depth)
{
    int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
    if (x < width && y < height && z < depth) ((int*)((char*)p.ptr + (z * p.ysize + y) * p.pitch))[x] = 100 * z + 10 * y + x;
}

int main()
{
    const int width = 5, height = 4, depth = 3;
    cudaPitchedPtr p;
    cudaExtent extent = make_cudaExtent(width * sizeof(int), height, depth);
    cudaMalloc3D(&p, extent);
    cudaMemset3D(p, 0, extent);
    mark<<<1, dim3(8, 4, 4)>>>(p, width, height, depth);
    int host[depth][height][width] = {}, part[2][2][2] = {};
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = p;
    copy.dstPtr = make_cudaPitchedPtr(host, width * sizeof(int), width, height);
    copy.extent = extent;
    copy.kind = cudaMemcpyDeviceToHost;
    printf("%s", cudaGetErrorName(cudaMemcpy3D(&copy)));
    printf(" %d %d\n", host[0][3][4], host[2][1][3]);
    cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
    cudaArray_t array;
    cudaMalloc3DArray(&array, &format, make_cudaExtent(width, height, depth));
    cudaMemcpy3DParms in = {};
    in.srcPtr = make_cudaPitchedPtr(host, width * sizeof(int), width, height);
    in.dstArray = array;
    in.extent = make_cudaExtent(width, height, depth);
    in.kind = cudaMemcpyHostToDevice;
    cudaMemcpy3D(&in);
    cudaMemcpy3DParms out = {};
    out.srcArray = array;
    out.srcPos = make_cudaPos(1, 2, 1);
    out.dstPtr = make_cudaPitchedPtr(part, 2 * sizeof(int), 2, 2);
    out.extent = make_cudaExtent(2, 2, 2);
    out.kind = cudaMemcpyDeviceToHost;
    printf("%s", cudaGetErrorName(cudaMemcpy3D(&out)));
    printf(" %d %d\n", part[0][0][0], part[1][1][1]);
    cudaFreeArray(array);
    cudaFree(p.ptr);
    return 0;
}
/* prints
cudaSuccess 34 213
cudaSuccess 121 232
*/
