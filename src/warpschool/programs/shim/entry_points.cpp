// entry_points.cpp: the driver's functions by their names. All that CUDA's header declares are there: what has no simulation
// says so when it is called.
#include <cstring>

#include "modules.h"

using namespace warp;

namespace warp {
/// A function of the driver's by its name without a version, since CUDA 1000 * major + 10 * minor. The build makes the list of CUDA's headers.
struct DriverEntry {
    const char* name;
    int since;
    void* function;
};
extern const DriverEntry driver_entries[];
extern const int driver_entry_count;
}  // namespace warp

namespace {

constexpr cuuint64_t kMostFlags = 2;  // legacy streams, per-thread streams: here both are one function
constexpr int kLonger = 12000;        // the version since which cuGetProcAddress has a fifth parameter

CUresult first_proc_address(const char* symbol, void** function, int version, cuuint64_t flags) {
    return cuGetProcAddress(symbol, function, version, flags, nullptr);
}

/// Null, with the reason in `status`, for a name that there is not, and for one that is younger than the version.
void* find(const char* symbol, int version, CUdriverProcAddressQueryResult* status) {
    *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    for (int k = 0; k < driver_entry_count; k++) {
        const DriverEntry& entry = driver_entries[k];
        if (strcmp(entry.name, symbol)) continue;
        *status = version < entry.since ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SUCCESS;
        if (*status != CU_GET_PROC_ADDRESS_SUCCESS) return nullptr;
        bool shorter = version < kLonger && !strcmp(symbol, "cuGetProcAddress");
        return shorter ? reinterpret_cast<void*>(&first_proc_address) : entry.function;
    }
    return nullptr;
}

}  // namespace

API CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
    connect();
    if (!symbol || !function || version > CUDA_VERSION || flags > kMostFlags) return CUDA_ERROR_INVALID_VALUE;
    CUdriverProcAddressQueryResult found;
    *function = find(symbol, version, &found);
    if (status) *status = found;
    return CUDA_SUCCESS;
}

API cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version, unsigned long long flags,
                                                 cudaDriverEntryPointQueryResult* status) {
    ENTER("cudaGetDriverEntryPointByVersion");
    CUdriverProcAddressQueryResult found;
    if (cuGetProcAddress(symbol, function, static_cast<int>(version), flags, &found) != CUDA_SUCCESS) RETURN(cudaErrorInvalidValue);
    if (status) *status = static_cast<cudaDriverEntryPointQueryResult>(found);
    return cudaSuccess;
}

API cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags, cudaDriverEntryPointQueryResult* status) {
    return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, status);
}
