// Tensor maps from the driver: its function by five ways, a box in each swizzle, and a store through a map with a new address. Quick.
// gpu: h200
// arch: compute_90a
// options: -lcuda -std=c++17
#include <cstdint>
#include <cstdio>
#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <vector>

constexpr int kRows = 16, kColumns = 96, kBoxRows = 8;

__device__ unsigned at(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

/// Copies one box in, gives it out as it lies in shared memory, and stores it through the other map at the same place.
__global__ void through(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to, int column, int row, int bytes,
                        unsigned char* raw)
{
    __shared__ alignas(1024) unsigned char box[kBoxRows * 128];
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&barrier)));
        asm volatile("fence.mbarrier_init.release.cluster;");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(&barrier)), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(at(box)),
                     "l"(&from), "r"(column), "r"(row), "r"(at(&barrier))
                     : "memory");
    }
    __syncthreads();
    asm volatile("{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n@!done bra WAIT;\n}" ::"r"(at(&barrier))
                 : "memory");
    for (int k = threadIdx.x; k < bytes; k += blockDim.x) raw[k] = box[k];
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&to), "r"(column), "r"(row),
                     "r"(at(box))
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
}

using Encode = PFN_cuTensorMapEncodeTiled_v12000;

Encode found(int way)
{
    void* function = nullptr;
    cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
    CUdriverProcAddressQueryResult same = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    const char* name = "cuTensorMapEncodeTiled";
    if (way == 0) return &cuTensorMapEncodeTiled;
    if (way == 1) cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &status);
    if (way == 2) cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &status);
    if (way == 3) cuGetProcAddress(name, &function, 12000, 0, &same);
    if (way == 4) return reinterpret_cast<Encode>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), name));  // as libcu++ does
    return status == cudaDriverEntryPointSuccess || same == CU_GET_PROC_ADDRESS_SUCCESS ? reinterpret_cast<Encode>(function) : nullptr;
}

void ask(const char* name, unsigned version)
{
    void* function = &function;
    cudaDriverEntryPointQueryResult status;
    cudaError_t error = cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &status);
    printf("%s of %u: %s", name, version, cudaGetErrorName(error));
    if (error == cudaSuccess) printf(", %d, %s", status, function ? "there" : "null");
    printf("\n");
}

int main()
{
    std::vector<float> x(kRows * kColumns), y(x.size());
    for (size_t k = 0; k < x.size(); k++) x[k] = k;
    float *d_x, *d_y;
    unsigned char* d_raw;
    cudaMalloc(&d_x, x.size() * 4);
    cudaMalloc(&d_y, x.size() * 4);
    cudaMalloc(&d_raw, kBoxRows * 128);
    cudaMemcpy(d_x, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    for (int mode = 0; mode < 4; mode++) {
        const cuuint32_t width = mode ? 16 << mode : 64;
        CUtensorMap from;
        cuuint64_t sizes[] = {kColumns, kRows}, strides[] = {kColumns * 4};
        cuuint32_t box[] = {width / 4, kBoxRows}, steps[] = {1, 1};
        Encode encode = found(mode);
        if (!encode) return 2;
        CUresult made = encode(&from, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, d_x, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                               static_cast<CUtensorMapSwizzle>(mode), CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
        CUtensorMap to = from;
        CUresult moved = cuTensorMapReplaceAddress(&to, d_y);
        cudaMemset(d_y, 0, y.size() * 4);
        const int column = 32, row = 12;  // four rows of the box lie outside
        through<<<1, 64>>>(from, to, column, row, width * kBoxRows, d_raw);
        std::vector<float> raw(width / 4 * kBoxRows);
        cudaMemcpy(raw.data(), d_raw, raw.size() * 4, cudaMemcpyDeviceToHost);
        cudaMemcpy(y.data(), d_y, y.size() * 4, cudaMemcpyDeviceToHost);
        int wrong = 0;
        for (unsigned k = 0; k < raw.size(); k++) {  // pieces of 16 bytes by the number of the row of 128 bytes
            unsigned byte = 4 * k, place = mode ? byte ^ (byte >> 7 & ((1u << mode) - 1)) << 4 : byte;
            unsigned r = byte / width, c = byte % width / 4;
            float expected = row + r < kRows ? x[(row + r) * kColumns + column + c] : 0;
            wrong += raw[place / 4] != expected;
        }
        for (int r = 0; r < kRows; r++)
            for (int c = 0; c < kColumns; c++) {
                bool inside = r >= row && c >= column && c < column + int(width / 4);
                wrong += y[r * kColumns + c] != (inside ? x[r * kColumns + c] : 0);
            }
        printf("swizzle %d: %d %d, %d wrong\n", mode, made, moved, wrong);
    }
    printf("all are one: %d\n", found(4) == found(0));
    ask("cuTensorMapEncodeTiled", 11080);
    ask("cuMemAlloc", 2000);
    ask("cuMemAlloc_v2", 12000);
    ask("cuNoSuchCall", 12000);
    ask("cuInit", 99000);
    cudaFree(d_x);
    cudaFree(d_y);
    cudaFree(d_raw);
    return 0;
}
/* prints
swizzle 0: 0 0, 0 wrong
swizzle 1: 0 0, 0 wrong
swizzle 2: 0 0, 0 wrong
swizzle 3: 0 0, 0 wrong
all are one: 1
cuTensorMapEncodeTiled of 11080: cudaSuccess, 2, null
cuMemAlloc of 2000: cudaSuccess, 0, there
cuMemAlloc_v2 of 12000: cudaSuccess, 1, null
cuNoSuchCall of 12000: cudaSuccess, 1, null
cuInit of 99000: cudaErrorInvalidValue
*/
