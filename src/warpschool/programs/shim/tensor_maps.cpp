// tensor_maps.cpp: the driver's calls that make tensor maps. What a map's 128 bytes mean, and whether there is such a map, the
// simulator knows, which reads them when a kernel gives one to the tensor memory accelerator.
#include <algorithm>
#include <cstring>

#include "modules.h"

using namespace warp;

namespace {

constexpr cuuint32_t kMostDimensions = 5;  // of more the simulator tells, without numbers that may not be there

/// Numbers of an array of the program's, each in 8 bytes; whether there is an array at all goes before them.
template <typename T>
void add(Message& message, const T* from, cuuint32_t count) {
    uint64_t numbers[kMostDimensions] = {};
    count = from ? std::min(count, kMostDimensions) : 0;
    for (cuuint32_t k = 0; k < count; k++) numbers[k] = static_cast<uint64_t>(static_cast<int64_t>(from[k]));
    message.u64(from != nullptr).bytes(numbers, 8 * count);
}

CUresult receive(Answer answer, CUtensorMap* map) {
    if (answer.error == cudaSuccess && answer.u64() == sizeof *map) memcpy(map, answer.data.data() + answer.at, sizeof *map);
    return as_driver(answer.error);
}

}  // namespace

API CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* sizes,
                                    const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    connect();
    Message message(TENSOR_MAP);
    message.text("cuTensorMapEncodeTiled").address(map).u64(type).u64(rank).address(address);
    message.u64(interleave).u64(swizzle).u64(promotion).u64(fill);
    add(message, sizes, rank), add(message, strides, rank ? rank - 1 : 0), add(message, box, rank), add(message, steps, rank);
    add<int>(message, nullptr, 0), add<int>(message, nullptr, 0);
    return receive(message.callers().ask(), map);
}

API CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* sizes,
                                     const cuuint64_t* strides, const int* lower, const int* upper, cuuint32_t channels, cuuint32_t places,
                                     const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                     CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    connect();
    const cuuint32_t box[] = {channels, places}, windows = rank > 2 ? rank - 2 : 0;
    Message message(TENSOR_MAP);
    message.text("cuTensorMapEncodeIm2col").address(map).u64(type).u64(rank).address(address);
    message.u64(interleave).u64(swizzle).u64(promotion).u64(fill);
    add(message, sizes, rank), add(message, strides, rank ? rank - 1 : 0), add(message, box, 2), add(message, steps, rank);
    add(message, lower, windows), add(message, upper, windows);
    return receive(message.callers().ask(), map);
}

API CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
    connect();
    Message message(TENSOR_MAP_ADDRESS);
    message.bytes(map, map ? sizeof *map : 0).address(address);
    return receive(message.callers().ask(), map);
}
