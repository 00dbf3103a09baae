// driver.cpp: the driver API for modules, memory and launches, by the runtime's own calls.
#include <stdio.h>
#include <string.h>

#include <string>
#include <vector>

#include "modules.h"

using namespace warp;

CUresult warp::as_driver(cudaError_t error) {
    switch (error) {  // most numbers are the same on both sides
        case cudaErrorMemoryAllocation: return CUDA_ERROR_OUT_OF_MEMORY;
        case cudaErrorInvalidConfiguration: return CUDA_ERROR_INVALID_VALUE;
        case cudaErrorInvalidSymbol: return CUDA_ERROR_NOT_FOUND;
        default: return static_cast<CUresult>(error);
    }
}

namespace {

struct LoadedModule {
    uint64_t number;
};

void* host(CUdeviceptr p) { return reinterpret_cast<void*>(p); }
cudaStream_t stream_of(CUstream s) { return reinterpret_cast<cudaStream_t>(s); }

constexpr char kNextPart[] = "\n// the next part of a linked module\n";  // between the texts that cuLinkComplete gives

/// Whole, with zeros behind it.
bool read_file(const char* path, std::string* text) {
    FILE* file = fopen(path, "rb");
    if (!file) return false;
    char part[1 << 16];
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) text->append(part, n);
    fclose(file);
    text->append(8, '\0');
    return true;
}

/// A text of PTX, or a fat binary that has it.
CUresult load(CUmodule* module, const char* image, size_t size) {
    connect();
    std::string text = ptx_of(image);
    if (text.empty()) text.assign(image, strnlen(image, size));
    if (!module) return CUDA_ERROR_INVALID_VALUE;
    if (text.find(".version") == std::string::npos) return CUDA_ERROR_INVALID_PTX;
    size_t cut = text.find(kNextPart);
    uint64_t number = add_module(text.data(), cut == text.npos ? text.size() : cut);
    while (cut != text.npos) {  // the simulator links the parts
        size_t start = cut + sizeof kNextPart - 1;
        cut = text.find(kNextPart, start);
        Message(MODULE).u64(number).bytes(text.data() + start, (cut == text.npos ? text.size() : cut) - start).send();
    }
    *module = reinterpret_cast<CUmodule>(new LoadedModule{number});
    return CUDA_SUCCESS;
}

}  // namespace

API CUresult cuInit(unsigned) { connect(); return CUDA_SUCCESS; }
API CUresult cuDriverGetVersion(int* version) { return as_driver(cudaDriverGetVersion(version)); }
API CUresult cuDeviceGetCount(int* count) { return as_driver(cudaGetDeviceCount(count)); }
API CUresult cuDeviceGet(CUdevice* device, int number) {
    if (number != 0) return CUDA_ERROR_INVALID_DEVICE;
    *device = 0;
    return CUDA_SUCCESS;
}
API CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
    cudaDeviceProp p;
    cudaError_t error = cudaGetDeviceProperties(&p, device);
    if (error == cudaSuccess) snprintf(name, length, "%s", p.name);
    return as_driver(error);
}
API CUresult cuDeviceTotalMem(size_t* bytes, CUdevice) { return as_driver(cudaMemGetInfo(nullptr, bytes)); }
API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
    return as_driver(cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device));
}
API CUresult cuCtxCreate(CUcontext* context, CUctxCreateParams*, unsigned, CUdevice) {
    connect();
    *context = reinterpret_cast<CUcontext>(1);
    return CUDA_SUCCESS;
}
API CUresult cuCtxDestroy(CUcontext) { return CUDA_SUCCESS; }
API CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
API CUresult cuCtxGetCurrent(CUcontext* context) {
    *context = reinterpret_cast<CUcontext>(1);
    return CUDA_SUCCESS;
}
API CUresult cuCtxPushCurrent(CUcontext) { return CUDA_SUCCESS; }
API CUresult cuCtxPopCurrent(CUcontext* context) {
    if (context) *context = reinterpret_cast<CUcontext>(1);
    return CUDA_SUCCESS;
}
API CUresult cuCtxDetach(CUcontext) { return CUDA_SUCCESS; }
API CUresult cuCtxSetCacheConfig(CUfunc_cache) { return CUDA_SUCCESS; }
API CUresult cuCtxSetLimit(CUlimit limit, size_t value) { return as_driver(cudaDeviceSetLimit(static_cast<cudaLimit>(limit), value)); }
API CUresult cuCtxGetLimit(size_t* value, CUlimit limit) { return as_driver(cudaDeviceGetLimit(value, static_cast<cudaLimit>(limit))); }
API CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) {
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}
API CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
    cudaError_t error = cudaDeviceGetAttribute(major, cudaDevAttrComputeCapabilityMajor, device);
    return as_driver(error != cudaSuccess ? error : cudaDeviceGetAttribute(minor, cudaDevAttrComputeCapabilityMinor, device));
}
API CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) { return as_driver(cudaDeviceGetPCIBusId(text, length, device)); }
API CUresult cuDeviceCanAccessPeer(int* can, CUdevice a, CUdevice b) { return as_driver(cudaDeviceCanAccessPeer(can, a, b)); }
API CUresult cuCtxGetDevice(CUdevice* device) {
    *device = 0;
    return CUDA_SUCCESS;
}
API CUresult cuCtxSynchronize() { return as_driver(cudaDeviceSynchronize()); }
API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) { return cuCtxCreate(context, nullptr, 0, device); }
API CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }

API CUresult cuModuleLoadData(CUmodule* module, const void* image) { return load(module, static_cast<const char*>(image), SIZE_MAX); }
API CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) { return cuModuleLoadData(module, image); }
API CUresult cuModuleLoad(CUmodule* module, const char* path) {
    std::string text;
    if (!read_file(path, &text)) return CUDA_ERROR_FILE_NOT_FOUND;
    return load(module, text.data(), text.size());
}
// ---------------------------------------------------------------- linking: each text is a part of the module that is loaded of it

namespace {
struct Linking {
    std::string parts;
    CUresult add(const char* data, size_t size) {
        std::string text = ptx_of(data);
        if (text.empty()) text.assign(data, strnlen(data, size));
        if (text.find(".version") == std::string::npos) return CUDA_ERROR_INVALID_PTX;
        parts += parts.empty() ? text : kNextPart + text;
        return CUDA_SUCCESS;
    }
};
Linking* of(CUlinkState state) { return reinterpret_cast<Linking*>(state); }
}  // namespace

API CUresult cuLinkCreate(unsigned, CUjit_option*, void**, CUlinkState* state) {
    connect();
    *state = reinterpret_cast<CUlinkState>(new Linking);
    return CUDA_SUCCESS;
}
API CUresult cuLinkAddData(CUlinkState state, CUjitInputType, void* data, size_t size, const char*, unsigned, CUjit_option*, void**) {
    return of(state)->add(static_cast<const char*>(data), size);
}
API CUresult cuLinkAddFile(CUlinkState state, CUjitInputType, const char* path, unsigned, CUjit_option*, void**) {
    std::string text;
    if (!read_file(path, &text)) return CUDA_ERROR_FILE_NOT_FOUND;
    return of(state)->add(text.data(), text.size());
}
API CUresult cuLinkComplete(CUlinkState state, void** image, size_t* size) {
    *image = const_cast<char*>(of(state)->parts.c_str());
    if (size) *size = of(state)->parts.size() + 1;
    return CUDA_SUCCESS;
}
API CUresult cuLinkDestroy(CUlinkState state) {
    delete of(state);
    return CUDA_SUCCESS;
}

API CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) { return cuModuleLoadData(module, image); }
API CUresult cuModuleUnload(CUmodule module) {
    delete reinterpret_cast<LoadedModule*>(module);
    return CUDA_SUCCESS;
}
API CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
    Kernel* k = add_kernel(reinterpret_cast<LoadedModule*>(module)->number, nullptr, strdup(name));
    if (ask(k) != cudaSuccess) return CUDA_ERROR_NOT_FOUND;
    *function = reinterpret_cast<CUfunction>(k);
    return CUDA_SUCCESS;
}
API CUresult cuModuleGetGlobal(CUdeviceptr* p, size_t* bytes, CUmodule module, const char* name) {
    Answer found = Message(SYMBOL).u64(reinterpret_cast<LoadedModule*>(module)->number).text(name).ask();
    if (found.error != cudaSuccess) return CUDA_ERROR_NOT_FOUND;
    uint64_t address = found.u64(), size = found.u64();
    if (p) *p = address;
    if (bytes) *bytes = size;
    return CUDA_SUCCESS;
}
API CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                            CUstream stream, void** parameters, void** extra) {
    Kernel* k = reinterpret_cast<Kernel*>(function);
    std::vector<void*> inside;
    if (extra && !parameters) {  // one buffer with all of them, as the kernel lays them out
        if (ask(k) != cudaSuccess) return CUDA_ERROR_INVALID_HANDLE;
        char* buffer = nullptr;
        for (; *extra != CU_LAUNCH_PARAM_END; extra += 2)
            if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = static_cast<char*>(extra[1]);
        for (const Parameter& p : k->parameters) inside.push_back(buffer + p.offset);
        parameters = inside.data();
    }
    return as_driver(launch(k, dim3(gx, gy, gz), dim3(bx, by, bz), parameters, shared, stream_of(stream), dim3(0, 0, 0), false, "cuLaunchKernel"));
}
API CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                       unsigned shared, CUstream stream, void** parameters) {
    return as_driver(launch(reinterpret_cast<Kernel*>(function), dim3(gx, gy, gz), dim3(bx, by, bz), parameters, shared, stream_of(stream),
                            dim3(0, 0, 0), true, "cuLaunchCooperativeKernel"));
}
API CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) { return as_driver(cudaLaunchHostFunc(stream_of(stream), function, data)); }
API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
    cudaFuncAttributes found;
    cudaError_t error = cudaFuncGetAttributes(&found, reinterpret_cast<Kernel*>(function)->host);
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = found.maxThreadsPerBlock; break;
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = found.sharedSizeBytes; break;
        case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *value = found.constSizeBytes; break;
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = found.localSizeBytes; break;
        case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = found.numRegs; break;
        case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = found.ptxVersion; break;
        case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = found.binaryVersion; break;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = found.maxDynamicSharedSizeBytes; break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    return as_driver(error);
}
API CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }
API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads, size_t shared) {
    return as_driver(cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, reinterpret_cast<Kernel*>(function)->host, threads, shared));
}
API CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of, size_t shared, int limit) {
    int multiprocessors = 0, most = 0, best = 0;
    cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
    if (CUresult error = cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function)) return error;
    if (limit > 0 && limit < most) most = limit;
    for (int threads = most; threads > 0; threads -= threads % 32 ? threads % 32 : 32) {  // the largest of equally good ones
        int blocks = 0;
        CUresult error = cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads, shared_of ? shared_of(threads) : shared);
        if (error != CUDA_SUCCESS) return error;
        if (blocks * threads > best) best = blocks * threads, *block = threads, *grid = blocks * multiprocessors;
    }
    return CUDA_SUCCESS;
}
API CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    const void* host = reinterpret_cast<Kernel*>(function)->host;
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        return as_driver(cudaFuncSetAttribute(host, cudaFuncAttributeMaxDynamicSharedMemorySize, value));
    if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
        return as_driver(cudaFuncSetAttribute(host, cudaFuncAttributeNonPortableClusterSizeAllowed, value));
    return CUDA_SUCCESS;
}

API CUresult cuMemAlloc(CUdeviceptr* p, size_t bytes) { return as_driver(cudaMalloc(reinterpret_cast<void**>(p), bytes)); }
API CUresult cuMemAllocManaged(CUdeviceptr* p, size_t bytes, unsigned flags) {
    return as_driver(cudaMallocManaged(reinterpret_cast<void**>(p), bytes, flags));
}
API CUresult cuMemFree(CUdeviceptr p) { return as_driver(cudaFree(host(p))); }
API CUresult cuMemAllocHost(void** p, size_t bytes) { return as_driver(cudaMallocHost(p, bytes)); }
API CUresult cuMemHostAlloc(void** p, size_t bytes, unsigned flags) { return as_driver(cudaHostAlloc(p, bytes, flags)); }
API CUresult cuMemHostGetDevicePointer(CUdeviceptr* p, void* host_pointer, unsigned flags) {
    return as_driver(cudaHostGetDevicePointer(reinterpret_cast<void**>(p), host_pointer, flags));
}
API CUresult cuMemHostRegister(void* p, size_t bytes, unsigned flags) { return as_driver(cudaHostRegister(p, bytes, flags)); }
API CUresult cuMemHostUnregister(void* p) { return as_driver(cudaHostUnregister(p)); }
API CUresult cuMemAllocPitch(CUdeviceptr* p, size_t* pitch, size_t width, size_t height, unsigned) {
    return as_driver(cudaMallocPitch(reinterpret_cast<void**>(p), pitch, width, height));
}
API CUresult cuMemAllocAsync(CUdeviceptr* p, size_t bytes, CUstream stream) {
    return as_driver(cudaMallocAsync(reinterpret_cast<void**>(p), bytes, stream_of(stream)));
}
API CUresult cuMemFreeAsync(CUdeviceptr p, CUstream stream) { return as_driver(cudaFreeAsync(host(p), stream_of(stream))); }
API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) { return as_driver(cudaMemcpy(host(to), host(from), bytes, cudaMemcpyDefault)); }
API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return as_driver(cudaMemcpyAsync(host(to), host(from), bytes, cudaMemcpyDefault, stream_of(stream)));
}
API CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return as_driver(cudaMemcpyAsync(host(to), host(from), bytes, cudaMemcpyDeviceToDevice, stream_of(stream)));
}
API CUresult cuMemFreeHost(void* p) { return as_driver(cudaFreeHost(p)); }
API CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) { return as_driver(cudaMemcpy(host(to), from, bytes, cudaMemcpyHostToDevice)); }
API CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) { return as_driver(cudaMemcpy(to, host(from), bytes, cudaMemcpyDeviceToHost)); }
API CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return as_driver(cudaMemcpy(host(to), host(from), bytes, cudaMemcpyDeviceToDevice));
}
API CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
    return as_driver(cudaMemcpyAsync(host(to), from, bytes, cudaMemcpyHostToDevice, stream_of(stream)));
}
API CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return as_driver(cudaMemcpyAsync(to, host(from), bytes, cudaMemcpyDeviceToHost, stream_of(stream)));
}
API CUresult cuMemsetD8(CUdeviceptr p, unsigned char value, size_t count) { return as_driver(cudaMemset(host(p), value, count)); }
namespace {
/// Words of 2 or 4 bytes.
template <typename T>
CUresult set_words(CUdeviceptr p, T value, size_t count, CUstream stream) {
    if (!count) return CUDA_SUCCESS;
    std::vector<T> words(count, value);
    return as_driver(cudaMemcpyAsync(host(p), words.data(), count * sizeof(T), cudaMemcpyHostToDevice, stream_of(stream)));
}
}  // namespace
API CUresult cuMemsetD16(CUdeviceptr p, unsigned short value, size_t count) { return set_words(p, value, count, nullptr); }
API CUresult cuMemsetD32(CUdeviceptr p, unsigned value, size_t count) { return set_words(p, value, count, nullptr); }
API CUresult cuMemsetD32Async(CUdeviceptr p, unsigned value, size_t count, CUstream stream) { return set_words(p, value, count, stream); }
API CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char value, size_t count, CUstream stream) {
    return as_driver(cudaMemsetAsync(host(p), value, count, stream_of(stream)));
}
API CUresult cuMemGetInfo(size_t* available, size_t* total) { return as_driver(cudaMemGetInfo(available, total)); }

API CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
    return as_driver(cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(stream), flags));
}
API CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
    return as_driver(cudaStreamCreateWithPriority(reinterpret_cast<cudaStream_t*>(stream), flags, priority));
}
API CUresult cuStreamQuery(CUstream stream) { return as_driver(cudaStreamQuery(stream_of(stream))); }
API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    return as_driver(cudaStreamWaitEvent(stream_of(stream), reinterpret_cast<cudaEvent_t>(event), flags));
}
API CUresult cuEventCreate(CUevent* event, unsigned flags) { return as_driver(cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(event), flags)); }
API CUresult cuEventRecord(CUevent event, CUstream stream) { return as_driver(cudaEventRecord(reinterpret_cast<cudaEvent_t>(event), stream_of(stream))); }
API CUresult cuEventSynchronize(CUevent event) { return as_driver(cudaEventSynchronize(reinterpret_cast<cudaEvent_t>(event))); }
API CUresult cuEventQuery(CUevent event) { return as_driver(cudaEventQuery(reinterpret_cast<cudaEvent_t>(event))); }
API CUresult cuEventElapsedTime(float* ms, CUevent a, CUevent b) {
    return as_driver(cudaEventElapsedTime(ms, reinterpret_cast<cudaEvent_t>(a), reinterpret_cast<cudaEvent_t>(b)));
}
API CUresult cuEventDestroy(CUevent event) { return as_driver(cudaEventDestroy(reinterpret_cast<cudaEvent_t>(event))); }
API CUresult cuStreamSynchronize(CUstream stream) { return as_driver(cudaStreamSynchronize(stream_of(stream))); }
API CUresult cuStreamDestroy(CUstream stream) { return as_driver(cudaStreamDestroy(stream_of(stream))); }

namespace warp {
/// The name of an error, which the build reads off CUDA's header; null for a number that is none.
const char* driver_error(int error);
}
API CUresult cuGetErrorName(CUresult error, const char** text) {
    *text = driver_error(error);
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuGetErrorString(CUresult error, const char** text) {
    cudaError_t same = error == CUDA_ERROR_OUT_OF_MEMORY ? cudaErrorMemoryAllocation : error == CUDA_ERROR_NOT_FOUND ? cudaErrorSymbolNotFound
                                                                                       : static_cast<cudaError_t>(error);
    *text = cudaGetErrorString(same);
    return CUDA_SUCCESS;
}
