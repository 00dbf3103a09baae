// driver.cpp: the driver API for modules, memory and launches, by the runtime's own calls.
#include <cuda.h>
#include <stdio.h>
#include <string.h>

#include <string>

#include "modules.h"

using namespace warp;

namespace {

CUresult as_driver(cudaError_t error) {
    switch (error) {  // most numbers are the same on both sides
        case cudaErrorMemoryAllocation: return CUDA_ERROR_OUT_OF_MEMORY;
        case cudaErrorInvalidConfiguration: return CUDA_ERROR_INVALID_VALUE;
        case cudaErrorInvalidSymbol: return CUDA_ERROR_NOT_FOUND;
        default: return static_cast<CUresult>(error);
    }
}

struct LoadedModule {
    uint64_t number;
};

void* host(CUdeviceptr p) { return reinterpret_cast<void*>(p); }
cudaStream_t stream_of(CUstream s) { return reinterpret_cast<cudaStream_t>(s); }

CUresult load(CUmodule* module, const std::string& text) {
    connect();
    if (!module) return CUDA_ERROR_INVALID_VALUE;
    if (text.find(".version") == std::string::npos) return CUDA_ERROR_INVALID_PTX;
    *module = reinterpret_cast<CUmodule>(new LoadedModule{add_module(text.data(), text.size())});
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
API CUresult cuCtxPopCurrent(CUcontext*) { return CUDA_SUCCESS; }
API CUresult cuCtxGetDevice(CUdevice* device) {
    *device = 0;
    return CUDA_SUCCESS;
}
API CUresult cuCtxSynchronize() { return as_driver(cudaDeviceSynchronize()); }
API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) { return cuCtxCreate(context, nullptr, 0, device); }
API CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }

API CUresult cuModuleLoadData(CUmodule* module, const void* image) { return load(module, static_cast<const char*>(image)); }
API CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) { return cuModuleLoadData(module, image); }
API CUresult cuModuleLoad(CUmodule* module, const char* path) {
    FILE* file = fopen(path, "rb");
    if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
    std::string text;
    char part[1 << 16];
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) text.append(part, n);
    fclose(file);
    return load(module, text);
}
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
    if (extra) return CUDA_ERROR_NOT_SUPPORTED;
    return as_driver(launch(k, dim3(gx, gy, gz), dim3(bx, by, bz), parameters, shared, stream_of(stream), dim3(0, 0, 0), false, "cuLaunchKernel"));
}
API CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;
    return as_driver(cudaFuncSetAttribute(reinterpret_cast<Kernel*>(function)->host, cudaFuncAttributeMaxDynamicSharedMemorySize, value));
}

API CUresult cuMemAlloc(CUdeviceptr* p, size_t bytes) { return as_driver(cudaMalloc(reinterpret_cast<void**>(p), bytes)); }
API CUresult cuMemAllocManaged(CUdeviceptr* p, size_t bytes, unsigned flags) {
    return as_driver(cudaMallocManaged(reinterpret_cast<void**>(p), bytes, flags));
}
API CUresult cuMemFree(CUdeviceptr p) { return as_driver(cudaFree(host(p))); }
API CUresult cuMemAllocHost(void** p, size_t bytes) { return as_driver(cudaMallocHost(p, bytes)); }
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
API CUresult cuMemGetInfo(size_t* available, size_t* total) { return as_driver(cudaMemGetInfo(available, total)); }

API CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
    return as_driver(cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(stream), flags));
}
API CUresult cuStreamSynchronize(CUstream stream) { return as_driver(cudaStreamSynchronize(stream_of(stream))); }
API CUresult cuStreamDestroy(CUstream stream) { return as_driver(cudaStreamDestroy(stream_of(stream))); }

API CUresult cuGetErrorName(CUresult error, const char** text) {
    switch (error) {
        case CUDA_SUCCESS: *text = "CUDA_SUCCESS"; break;
        case CUDA_ERROR_INVALID_VALUE: *text = "CUDA_ERROR_INVALID_VALUE"; break;
        case CUDA_ERROR_OUT_OF_MEMORY: *text = "CUDA_ERROR_OUT_OF_MEMORY"; break;
        case CUDA_ERROR_INVALID_DEVICE: *text = "CUDA_ERROR_INVALID_DEVICE"; break;
        case CUDA_ERROR_INVALID_PTX: *text = "CUDA_ERROR_INVALID_PTX"; break;
        case CUDA_ERROR_FILE_NOT_FOUND: *text = "CUDA_ERROR_FILE_NOT_FOUND"; break;
        case CUDA_ERROR_NOT_FOUND: *text = "CUDA_ERROR_NOT_FOUND"; break;
        case CUDA_ERROR_ILLEGAL_ADDRESS: *text = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
        case CUDA_ERROR_LAUNCH_FAILED: *text = "CUDA_ERROR_LAUNCH_FAILED"; break;
        default: *text = "CUDA_ERROR_UNKNOWN"; break;
    }
    return CUDA_SUCCESS;
}
API CUresult cuGetErrorString(CUresult error, const char** text) {
    cudaError_t same = error == CUDA_ERROR_OUT_OF_MEMORY ? cudaErrorMemoryAllocation : error == CUDA_ERROR_NOT_FOUND ? cudaErrorSymbolNotFound
                                                                                       : static_cast<cudaError_t>(error);
    *text = cudaGetErrorString(same);
    return CUDA_SUCCESS;
}
