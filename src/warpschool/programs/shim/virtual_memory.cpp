// virtual_memory.cpp: the driver's calls that reserve addresses, make memory, and put the one at the other.
//
// A reservation takes memory of the simulated device at once, for memory here never moves: what is mapped is a matter of
// accounts. So one piece of memory cannot be at two addresses, and a reservation cannot be larger than the device.
#include <map>
#include <mutex>

#include "modules.h"

using namespace warp;

namespace {

constexpr size_t kGranularity = 2 << 20;  // as GPUs have it

struct Piece {
    CUmemAllocationProp properties;
    size_t bytes;
    int holders;  // who made it, and its mapping
    CUdeviceptr place;
};

std::mutex held;
std::map<CUdeviceptr, size_t> reserved;
std::map<CUdeviceptr, std::pair<size_t, Piece*>> mapped;

bool whole(size_t bytes) { return bytes && bytes % kGranularity == 0; }

bool inside_reservation(CUdeviceptr p, size_t bytes) {
    auto next = reserved.upper_bound(p);
    if (next == reserved.begin()) return false;
    auto [start, size] = *std::prev(next);
    return p + bytes <= start + size;
}

bool overlaps_mapping(CUdeviceptr p, size_t bytes) {
    auto next = mapped.lower_bound(p + bytes);
    if (next == mapped.begin()) return false;
    auto [start, what] = *std::prev(next);
    return start + what.first > p;
}

void let_go(Piece* piece) {
    if (--piece->holders == 0) delete piece;
}

}  // namespace

API CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties, CUmemAllocationGranularity_flags) {
    if (!bytes || !properties) return CUDA_ERROR_INVALID_VALUE;
    *bytes = kGranularity;
    return CUDA_SUCCESS;
}
API CUresult cuMemAddressReserve(CUdeviceptr* p, size_t bytes, size_t, CUdeviceptr, unsigned long long flags) {
    if (!p || !whole(bytes) || flags) return CUDA_ERROR_INVALID_VALUE;
    CUresult error = as_driver(cudaMalloc(reinterpret_cast<void**>(p), bytes));
    std::lock_guard<std::mutex> hold(held);
    if (error == CUDA_SUCCESS) reserved[*p] = bytes;
    return error;
}
API CUresult cuMemAddressFree(CUdeviceptr p, size_t bytes) {
    {
        std::lock_guard<std::mutex> hold(held);
        auto found = reserved.find(p);
        if (found == reserved.end() || found->second != bytes || overlaps_mapping(p, bytes)) return CUDA_ERROR_INVALID_VALUE;
        reserved.erase(found);
    }
    return as_driver(cudaFree(reinterpret_cast<void*>(p)));
}
API CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* properties, unsigned long long flags) {
    if (!handle || !properties || !whole(bytes) || flags) return CUDA_ERROR_INVALID_VALUE;
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUresult(unsupported("cuMemCreate of the host's memory"));
    if (properties->location.id != 0) return CUDA_ERROR_INVALID_DEVICE;
    size_t available = 0, total = 0;
    if (CUresult error = as_driver(cudaMemGetInfo(&available, &total))) return error;
    if (bytes > total) return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = reinterpret_cast<CUmemGenericAllocationHandle>(new Piece{*properties, bytes, 1, 0});
    return CUDA_SUCCESS;
}
API CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard<std::mutex> hold(held);
    let_go(reinterpret_cast<Piece*>(handle));
    return CUDA_SUCCESS;
}
API CUresult cuMemMap(CUdeviceptr p, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
    std::lock_guard<std::mutex> hold(held);
    Piece* piece = reinterpret_cast<Piece*>(handle);
    if (!piece || offset || flags || bytes != piece->bytes || !inside_reservation(p, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (overlaps_mapping(p, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (piece->place) return CUresult(unsupported("cuMemMap of one piece of memory at two addresses"));
    piece->place = p, piece->holders++;
    mapped[p] = {bytes, piece};
    return CUDA_SUCCESS;
}
API CUresult cuMemUnmap(CUdeviceptr p, size_t bytes) {
    std::lock_guard<std::mutex> hold(held);
    if (!inside_reservation(p, bytes)) return CUDA_ERROR_INVALID_VALUE;
    for (auto at = mapped.lower_bound(p); at != mapped.end() && at->first < p + bytes; at = mapped.erase(at)) {
        at->second.second->place = 0;
        let_go(at->second.second);
    }
    return CUDA_SUCCESS;
}
API CUresult cuMemSetAccess(CUdeviceptr p, size_t bytes, const CUmemAccessDesc* access, size_t count) {
    std::lock_guard<std::mutex> hold(held);
    for (size_t k = 0; k < count; k++)
        if (access[k].location.type == CU_MEM_LOCATION_TYPE_DEVICE && access[k].location.id != 0) return CUDA_ERROR_INVALID_DEVICE;
    return bytes && overlaps_mapping(p, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation*, CUdeviceptr p) {
    std::lock_guard<std::mutex> hold(held);
    if (!flags || !overlaps_mapping(p, 1)) return CUDA_ERROR_INVALID_VALUE;
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return CUDA_SUCCESS;
}
API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
    std::lock_guard<std::mutex> hold(held);
    CUdeviceptr p = reinterpret_cast<CUdeviceptr>(address);
    if (!handle || !overlaps_mapping(p, 1)) return CUDA_ERROR_INVALID_VALUE;
    Piece* piece = std::prev(mapped.upper_bound(p))->second.second;
    piece->holders++;
    *handle = reinterpret_cast<CUmemGenericAllocationHandle>(piece);
    return CUDA_SUCCESS;
}
API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
    if (!properties || !handle) return CUDA_ERROR_INVALID_VALUE;
    *properties = reinterpret_cast<Piece*>(handle)->properties;
    return CUDA_SUCCESS;
}
