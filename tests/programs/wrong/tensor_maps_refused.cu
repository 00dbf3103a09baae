// Tensor maps that no driver makes: each call fails, and is told with the reason at its line.
// gpu: h200
// arch: compute_90a
// options: -lcuda
// finds: tensor-map 28
// finds: tensor-map 29
// finds: tensor-map 30
// finds: tensor-map 32
// finds: tensor-map 34
#include <cstdio>
#include <cuda.h>

#define TILED(address, width, swizzle)                                                                                               \
    cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, address, sizes, strides, box(width), steps,                     \
                           CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_##swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,          \
                           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)

int main()
{
    float* x;
    const char* name = "";
    cudaMalloc(&x, 64 * 64 * sizeof(float));
    CUtensorMap map = {};
    cuuint64_t sizes[] = {64, 64}, strides[] = {256};
    cuuint32_t steps[] = {1, 1}, sides[] = {0, 8};
    auto box = [&](cuuint32_t width) { return sides[0] = width, sides; };
    int found[6];
    found[0] = TILED(x + 1, 32, NONE);
    found[1] = TILED(x, 33, NONE);
    found[2] = TILED(x, 64, 128B);
    strides[0] = 200;
    found[3] = TILED(x, 32, NONE);
    strides[0] = 256;
    found[4] = cuTensorMapReplaceAddress(&map, x);
    found[5] = TILED(x, 32, 128B);
    for (int error : found) {
        CUresult known = cuGetErrorName(static_cast<CUresult>(error), &name);
        printf("%d %s\n", known, name);
    }
    cudaFree(x);
    return 0;
}
/* prints
0 CUDA_ERROR_INVALID_VALUE
0 CUDA_ERROR_INVALID_VALUE
0 CUDA_ERROR_INVALID_VALUE
0 CUDA_ERROR_INVALID_VALUE
0 CUDA_ERROR_INVALID_VALUE
0 CUDA_SUCCESS
*/
