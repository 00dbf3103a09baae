// Tensor maps as a kernel may get them: in global and constant memory, in a structure; of all types, one to five dimensions, windows.
// gpu: h200
// arch: compute_90a
// options: -lcuda -std=c++17
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cuda.h>
#include <vector>

constexpr int kMost = 2048;

struct Place {
    int at[5];
    uint16_t window[2];
};
struct Both {
    int unused;
    CUtensorMap map;
};

__constant__ CUtensorMap in_constant_memory;

#define BEGIN "cp.async.bulk.tensor."
#define TILE ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
#define WINDOWS ".shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, "

template <int rank, bool windows = false>
__device__ void load(const CUtensorMap* map, Place p, int bytes, unsigned char* raw)
{
    __shared__ alignas(1024) unsigned char box[kMost];
    __shared__ uint64_t barrier;
    const unsigned to = __cvta_generic_to_shared(box), bar = __cvta_generic_to_shared(&barrier);
    const int *c = p.at;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(bar));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
        if (rank == 1) asm volatile(BEGIN "1d" TILE "{%3}], [%2];" ::"r"(to), "l"(map), "r"(bar), "r"(c[0]) : "memory");
        if (rank == 2) asm volatile(BEGIN "2d" TILE "{%3, %4}], [%2];" ::"r"(to), "l"(map), "r"(bar), "r"(c[0]), "r"(c[1]) : "memory");
        if (rank == 3)
            asm volatile(BEGIN "3d" TILE "{%3, %4, %5}], [%2];" ::"r"(to), "l"(map), "r"(bar), "r"(c[0]), "r"(c[1]), "r"(c[2]) : "memory");
        if (rank == 4 && !windows)
            asm volatile(BEGIN "4d" TILE "{%3, %4, %5, %6}], [%2];" ::"r"(to), "l"(map), "r"(bar), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])
                         : "memory");
        if (rank == 4 && windows)
            asm volatile(BEGIN "4d" WINDOWS "{%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(to), "l"(map), "r"(bar), "r"(c[0]), "r"(c[1]), "r"(c[2]),
                         "r"(c[3]), "h"(p.window[0]), "h"(p.window[1])
                         : "memory");
        if (rank == 5)
            asm volatile(BEGIN "5d" TILE "{%3, %4, %5, %6, %7}], [%2];" ::"r"(to), "l"(map), "r"(bar), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]),
                         "r"(c[4])
                         : "memory");
    }
    __syncthreads();
    asm volatile("{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n@!done bra WAIT;\n}" ::"r"(bar) : "memory");
    for (int k = threadIdx.x; k < bytes; k += blockDim.x) raw[k] = box[k];
}

template <int rank>
__global__ void by_value(const __grid_constant__ CUtensorMap map, Place p, int bytes, unsigned char* raw) { load<rank>(&map, p, bytes, raw); }
__global__ void by_windows(const __grid_constant__ CUtensorMap map, Place p, int bytes, unsigned char* raw) { load<4, true>(&map, p, bytes, raw); }
__global__ void by_structure(const __grid_constant__ Both both, Place p, int bytes, unsigned char* raw) { load<2>(&both.map, p, bytes, raw); }
__global__ void by_pointer(const CUtensorMap* map, Place p, int bytes, unsigned char* raw) { load<2>(map, p, bytes, raw); }
__global__ void by_constant(Place p, int bytes, unsigned char* raw) { load<2>(&in_constant_memory, p, bytes, raw); }

const int kBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
unsigned char *d_x, *d_raw;
std::vector<float> x(4096);

/// A map of so many dimensions of `side` elements each, the innermost of 128 bytes.
CUtensorMap encoded(int type, unsigned rank, unsigned side, std::vector<cuuint32_t> box, std::vector<cuuint32_t> steps = {1, 1, 1, 1, 1},
                    CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
{
    CUtensorMap map;
    cuuint64_t sizes[5] = {cuuint64_t(128 / kBytes[type]), side, side, side, side}, strides[4] = {128};
    for (int k = 1; k < 4; k++) strides[k] = strides[k - 1] * side;
    CUresult made = cuTensorMapEncodeTiled(&map, static_cast<CUtensorMapDataType>(type), rank, d_x, sizes, strides, box.data(), steps.data(),
                                           CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, fill);
    if (made != CUDA_SUCCESS) printf("refused: %d\n", made), exit(2);
    return map;
}

/// What a kernel gave out; then there is nothing left of it.
std::vector<float> taken(int bytes)
{
    std::vector<float> raw(bytes / 4);
    cudaError_t error = cudaMemcpy(raw.data(), d_raw, bytes, cudaMemcpyDeviceToHost);
    if (error != cudaSuccess) printf("%s\n", cudaGetErrorString(error));
    cudaMemset(d_raw, 0xEE, kMost);
    return raw;
}

bool same(const std::vector<float>& raw, size_t first) { return !memcmp(raw.data(), &x[first], 4 * raw.size()); }

void memories()
{
    const CUtensorMap map = encoded(7, 2, 8, {32, 2});
    const Place p = {{0, 3}};
    const int bytes = 256;
    CUtensorMap* d_map;
    cudaMalloc(&d_map, sizeof map);
    cudaMemcpy(d_map, &map, sizeof map, cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(in_constant_memory, &map, sizeof map);
    by_pointer<<<1, 32>>>(d_map, p, bytes, d_raw);
    printf("global %d", same(taken(bytes), 96));
    by_constant<<<1, 32>>>(p, bytes, d_raw);
    printf(", constant %d", same(taken(bytes), 96));
    by_structure<<<1, 32>>>({1, map}, p, bytes, d_raw);
    printf(", structure %d\n", same(taken(bytes), 96));
    cudaFree(d_map);
}

void types_and_dimensions()
{
    for (int type = 0; type < 13; type++) {
        by_value<2><<<1, 32>>>(encoded(type, 2, 8, {cuuint32_t(128 / kBytes[type]), 3}), {{0, 2}}, 384, d_raw);
        printf("%d%s", same(taken(384), 64), type < 12 ? " " : " types\n");
    }
    by_value<1><<<1, 32>>>(encoded(7, 1, 2, {16}), {{8}}, 64, d_raw);
    printf("%d", same(taken(64), 8));
    by_value<3><<<1, 32>>>(encoded(7, 3, 2, {32, 2, 1}), {{0, 0, 1}}, 256, d_raw);
    printf(" %d", same(taken(256), 64));
    by_value<4><<<1, 32>>>(encoded(7, 4, 2, {32, 2, 2, 1}), {{0, 0, 0, 1}}, 512, d_raw);
    printf(" %d", same(taken(512), 128));
    by_value<5><<<1, 32>>>(encoded(7, 5, 2, {32, 2, 2, 2, 1}), {{0, 0, 0, 0, 1}}, 1024, d_raw);
    printf(" %d dimensions\n", same(taken(1024), 256));
}

void steps_and_fills()
{
    by_value<2><<<1, 32>>>(encoded(7, 2, 8, {4, 5}, {1, 2}), {{0, 1}}, 48, d_raw);
    for (float v : taken(48)) printf("%g ", v);  // rows 1, 3 and 5
    by_value<2><<<1, 32>>>(encoded(7, 2, 8, {4, 2}, {1, 1}, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA), {{0, 7}}, 32, d_raw);
    int nans = 0;
    for (float v : taken(32)) nans += std::isnan(v);
    printf("and %d NaNs\n", nans);
}

void windows()
{
    CUtensorMap map;  // one image of 6 rows and 5 columns with 4 channels, for windows of 3 x 3 around each place
    const cuuint64_t sizes[] = {4, 5, 6, 1}, strides[] = {16, 80, 480};
    const int lower[] = {-1, -1}, upper[] = {-1, -1};
    const cuuint32_t steps[] = {1, 1, 1, 1};
    CUresult made = cuTensorMapEncodeIm2col(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, d_x, sizes, strides, lower, upper, 4, 30, steps,
                                            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    int wrong = made;
    for (int r = 0; r < 3; r++)
        for (int s = 0; s < 3; s++) {
            by_windows<<<1, 32>>>(map, {{0, -1, -1, 0}, {uint16_t(s), uint16_t(r)}}, 480, d_raw);
            std::vector<float> raw = taken(480);
            for (int k = 0; k < 120; k++) {
                int row = k / 20 + r - 1, column = k / 4 % 5 + s - 1;
                bool inside = row >= 0 && row < 6 && column >= 0 && column < 5;
                wrong += raw[k] != (inside ? x[(row * 5 + column) * 4 + k % 4] : 0);
            }
        }
    printf("windows: %d wrong\n", wrong);
}

int main()
{
    for (size_t k = 0; k < x.size(); k++) x[k] = k;  // exact in tf32 up to 2048
    cudaMalloc(&d_x, x.size() * 4);
    cudaMalloc(&d_raw, kMost);
    cudaMemcpy(d_x, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    memories();
    types_and_dimensions();
    steps_and_fills();
    windows();
    cudaFree(d_x);
    cudaFree(d_raw);
    return 0;
}
/* prints
global 1, constant 1, structure 1
1 1 1 1 1 1 1 1 1 1 1 1 1 types
1 1 1 1 dimensions
32 33 34 35 96 97 98 99 160 161 162 163 and 4 NaNs
windows: 0 wrong
*/
