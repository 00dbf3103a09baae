// The driver's arrays, copies of boxes, and textures over them; the block size that fills an SM.
// options: -lcuda
#include <cuda.h>
#include <cstdio>
#include <string>

static const char kernels[] = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry look(.param .u64 texture, .param .u64 out)
{
    .reg .u64 %t, %o; .reg .f32 %x, %y, %a, %b, %c, %d;
    ld.param.u64 %t, [texture]; ld.param.u64 %o, [out]; cvta.to.global.u64 %o, %o;
    mov.f32 %x, 0f3F400000; mov.f32 %y, 0f3E800000;
    tex.2d.v4.f32.f32 {%a, %b, %c, %d}, [%t, {%x, %y}];
    st.global.f32 [%o], %a; st.global.f32 [%o+4], %b;
    ret;
}
)";

int main()
{
    cuInit(0);
    cudaFree(0);
    unsigned char texels[2][4][2];  // rows, columns, channels
    for (int k = 0; k < 16; k++) ((unsigned char*)texels)[k] = 15 * k;
    CUDA_ARRAY_DESCRIPTOR shape = {4, 2, CU_AD_FORMAT_UNSIGNED_INT8, 2}, told;
    CUarray array;
    printf("%d\n", cuArrayCreate(&array, &shape));
    cuArrayGetDescriptor(&told, array);
    printf("%zu %zu %d %u\n", told.Width, told.Height, told.Format == CU_AD_FORMAT_UNSIGNED_INT8, told.NumChannels);

    CUDA_MEMCPY2D in = {};
    in.srcMemoryType = CU_MEMORYTYPE_HOST, in.srcHost = texels, in.srcPitch = 8;
    in.dstMemoryType = CU_MEMORYTYPE_ARRAY, in.dstArray = array;
    in.WidthInBytes = 8, in.Height = 2;
    printf("%d\n", cuMemcpy2D(&in));
    unsigned char corner[2][2];
    CUDA_MEMCPY2D back = {};
    back.srcMemoryType = CU_MEMORYTYPE_ARRAY, back.srcArray = array, back.srcXInBytes = 6;
    back.dstMemoryType = CU_MEMORYTYPE_HOST, back.dstHost = corner, back.dstPitch = 2;
    back.WidthInBytes = 2, back.Height = 2;
    printf("%d", cuMemcpy2DUnaligned(&back));
    printf(" %d %d %d %d\n", corner[0][0], corner[0][1], corner[1][0], corner[1][1]);

    CUDA_RESOURCE_DESC resource = {};
    resource.resType = CU_RESOURCE_TYPE_ARRAY, resource.res.array.hArray = array;
    CUDA_TEXTURE_DESC how = {};
    how.flags = CU_TRSF_NORMALIZED_COORDINATES;  // so bytes are read as fractions
    for (CUaddress_mode& mode : how.addressMode) mode = CU_TR_ADDRESS_MODE_CLAMP;
    CUtexObject texture;
    printf("%d\n", cuTexObjectCreate(&texture, &resource, &how, nullptr));
    CUmodule module;
    CUfunction look;
    CUdeviceptr out;
    cuModuleLoadData(&module, kernels);
    cuModuleGetFunction(&look, module, "look");
    cuMemAlloc(&out, 8);
    void* parameters[] = {&texture, &out};
    printf("%d\n", cuLaunchKernel(look, 1, 1, 1, 1, 1, 1, 0, 0, parameters, nullptr));
    float seen[2];
    cuMemcpyDtoH(seen, out, 8);
    printf("%g %g\n", 255 * seen[0], 255 * seen[1]);  // row 0, column 3

    int grid = 0, block = 0;
    printf("%d", cuOccupancyMaxPotentialBlockSize(&grid, &block, look, nullptr, 0, 0));
    printf(" %d %d\n", block, grid);
    cuTexObjectDestroy(texture);
    cuArrayDestroy(array);
    cuMemFree(out);
    cuModuleUnload(module);
    return 0;
}
/* prints
0
4 2 1 2
0
0 90 105 210 225
0
0
90 105
0 1024 216
*/
