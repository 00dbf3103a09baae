// launch.cpp: kernels of the program: registered when it starts, launched by number.
#include <cuda_runtime_api.h>
#include <cxxabi.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <string>
#include <unordered_map>

#include "modules.h"

namespace warp {
namespace {

std::mutex tables;
std::unordered_map<const void*, Kernel*> kernels;
std::unordered_map<const void*, Variable*> variables;
uint64_t modules = 0, functions = 0;
std::vector<void (*)(void**)> unlinked;  // of files compiled with -rdc=true: what registers their kernels and variables
uint64_t linked_module = 0;

struct Fatbin {  // what nvcc embeds: __fatBinC_Wrapper_t of fatbinary_section.h, then fatbinary's own format
    int magic, version;
    const unsigned char* data;
    void* more;
};

}  // namespace

/// A header of 16 bytes, then images with headers of their own.
std::string ptx_of(const void* fat_binary) {
    const unsigned char* at = static_cast<const unsigned char*>(fat_binary);
    auto u16 = [](const unsigned char* p) { uint16_t v; memcpy(&v, p, 2); return v; };
    auto u32 = [](const unsigned char* p) { uint32_t v; memcpy(&v, p, 4); return v; };
    auto u64 = [](const unsigned char* p) { uint64_t v; memcpy(&v, p, 8); return v; };
    constexpr uint32_t kMagic = 0xBA55ED50;
    constexpr uint16_t kPtx = 1;
    constexpr uint64_t kCompressed = 0x2000 | 0x8000;
    if (u32(at) != kMagic) return "";
    const unsigned char* end = at + u16(at + 6) + u64(at + 8);
    at += u16(at + 6);
    while (at < end) {
        uint32_t header = u32(at + 4);
        uint64_t size = u64(at + 8);
        if (u16(at) == kPtx && !(u64(at + 40) & kCompressed))
            return std::string(reinterpret_cast<const char*>(at + header), strnlen(reinterpret_cast<const char*>(at + header), size));
        at += header + size;
    }
    return "";
}

namespace {

std::string readable(const char* name) {
    int status = 0;
    char* found = abi::__cxa_demangle(name, nullptr, nullptr, &status);
    std::string text = status == 0 ? found : name;
    free(found);
    return text;
}

struct Configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};

/// Of this thread's launches that are under way; never destroyed, as destructors of the program's variables may launch.
std::vector<Configuration>& configurations() {
    thread_local auto* found = new std::vector<Configuration>;
    return *found;
}

/// Whether a GPU takes a launch; what it says if not.
cudaError_t refusal(const Kernel* k, dim3 grid, dim3 block, size_t shared) {
    uint64_t threads = uint64_t(block.x) * block.y * block.z;
    if (!grid.x || !grid.y || !grid.z || !threads || grid.y > 65535 || grid.z > 65535 || grid.x > 0x7fffffff) return cudaErrorInvalidConfiguration;
    if (block.x > 1024 || block.y > 1024 || block.z > 64 || threads > 1024) return cudaErrorInvalidConfiguration;
    if (threads > k->most_threads) return cudaErrorLaunchOutOfResources;
    if (shared + k->static_shared > std::max<uint64_t>(48 << 10, k->shared_allowed + k->static_shared)) return cudaErrorInvalidValue;
    return cudaSuccess;
}

/// Files that share one module have all come when somebody needs something of it.
void finish_linking() {
    std::vector<void (*)(void**)> all;
    {
        std::lock_guard<std::mutex> hold(tables);
        all.swap(unlinked);
    }
    for (auto registers : all) registers(reinterpret_cast<void**>(&linked_module));
}

uint64_t new_module() {
    std::lock_guard<std::mutex> hold(tables);
    return modules++;
}

}  // namespace

uint64_t add_module(const char* ptx, size_t size) {
    uint64_t number = new_module();
    Message(MODULE).u64(number).bytes(ptx, size).send();
    return number;
}

Kernel* add_kernel(uint64_t module, const void* host, const char* name) {
    Kernel* k = new Kernel;
    {
        std::lock_guard<std::mutex> hold(tables);
        if (host && kernels.count(host)) {
            delete k;
            return kernels[host];
        }
        k->number = functions++, k->module = module, k->host = host ? host : k, k->name = name;
        kernels[k->host] = k;
    }
    std::string text = readable(name);
    Message(FUNCTION).u64(k->number).u64(k->module).text(name).bytes(text.data(), text.size()).send();
    return k;
}

Kernel* kernel(const void* host) {
    finish_linking();
    std::lock_guard<std::mutex> hold(tables);
    auto found = kernels.find(host);
    return found == kernels.end() ? nullptr : found->second;
}

Variable* variable(const void* symbol) {
    finish_linking();
    Variable* v;
    {
        std::lock_guard<std::mutex> hold(tables);
        auto found = variables.find(symbol);
        if (found == variables.end()) return nullptr;
        v = found->second;
    }
    if (!v->address) {
        Answer answer = Message(SYMBOL).u64(v->module).text(v->name).ask();
        if (answer.error != cudaSuccess) return nullptr;
        v->address = reinterpret_cast<char*>(answer.u64());
        v->bytes = answer.u64();
    }
    return v;
}

cudaError_t ask(Kernel* k) {
    if (k->asked) return cudaSuccess;
    Answer answer = Message(FUNCTION_ASK).u64(k->number).ask();
    if (answer.error != cudaSuccess) return answer.error;
    k->most_threads = answer.u64();
    k->static_shared = answer.u64();
    k->shared_limit = answer.u64();
    k->parameters.resize(answer.u64());
    for (Parameter& p : k->parameters) {
        p.offset = answer.u64();
        p.bytes = answer.u64();
    }
    k->asked = true;
    return cudaSuccess;
}

namespace {
cudaError_t run(Kernel* k, dim3 grid, dim3 block, const std::vector<char>& parameters, size_t shared, cudaStream_t stream, dim3 cluster,
                bool cooperative) {
    managed_lock();
    Message(LAUNCH).u64(k->number).u64(grid.x).u64(grid.y).u64(grid.z).u64(block.x).u64(block.y).u64(block.z).u64(shared)
        .u64(stream_number(stream)).u64(cluster.x).u64(cluster.y).u64(cluster.z).u64(cooperative)
        .u64(k->large_clusters).bytes(parameters.data(), parameters.size()).callers().send();
    return cudaSuccess;
}
}  // namespace

cudaError_t launch(Kernel* k, dim3 grid, dim3 block, const void* const* arguments, size_t shared, cudaStream_t stream, dim3 cluster,
                   bool cooperative, const char* call) {
    if (fatal() != cudaSuccess) return result(fatal(), call);
    if (!k) return result(cudaErrorInvalidDeviceFunction, call);
    cudaError_t error = ask(k);
    if (error == cudaSuccess) error = refusal(k, grid, block, shared);
    if (error != cudaSuccess) {
        set_last(error);
        Message(LAUNCH_ERROR).u64(error).u64(k->number).u64(grid.x).u64(grid.y).u64(grid.z).u64(block.x).u64(block.y).u64(block.z)
            .u64(shared).text(call).callers().send();
        return error;
    }
    auto given = const_cast<void**>(arguments);
    if (capture_launch(stream, {const_cast<void*>(k->host), grid, block, unsigned(shared), given, nullptr}, cluster, cooperative)) return cudaSuccess;
    size_t size = k->parameters.empty() ? 0 : k->parameters.back().offset + k->parameters.back().bytes;
    std::vector<char> block_of_parameters(size);
    for (size_t n = 0; n < k->parameters.size(); n++)
        memcpy(&block_of_parameters[k->parameters[n].offset], arguments[n], k->parameters[n].bytes);
    return run(k, grid, block, block_of_parameters, shared, stream, cluster, cooperative);
}

}  // namespace warp

using namespace warp;

// ---------------------------------------------------------------- what nvcc's code calls

API void** __cudaRegisterFatBinary(void* wrapper) {
    connect();
    std::string ptx = ptx_of(static_cast<Fatbin*>(wrapper)->data);
    return reinterpret_cast<void**>(new uint64_t(add_module(ptx.data(), ptx.size())));
}
API void __cudaRegisterFatBinaryEnd(void**) {}
API void __cudaUnregisterFatBinary(void**) {}
API void __cudaRegisterFunction(void** module, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
    add_kernel(*reinterpret_cast<uint64_t*>(module), host, name);
}
API void __cudaRegisterVar(void** module, char* host, char*, const char* name, int, size_t, int, int) {
    std::lock_guard<std::mutex> hold(tables);
    Variable* v = new Variable;
    v->module = *reinterpret_cast<uint64_t*>(module), v->name = name;
    variables[host] = v;
}
API void __cudaRegisterManagedVar(void** module, void** host, char*, const char* name, int, size_t, int, int) {
    Answer answer = Message(MANAGED_SYMBOL).u64(*reinterpret_cast<uint64_t*>(module)).text(name).ask();
    Variable* v = new Variable;
    v->module = *reinterpret_cast<uint64_t*>(module), v->name = name;
    v->address = reinterpret_cast<char*>(answer.u64()), v->bytes = answer.u64();
    managed_add(v->address, v->bytes);
    *host = v->address;
    std::lock_guard<std::mutex> hold(tables);
    variables[host] = variables[v->address] = v;
}
API char __cudaInitModule(void**) {
    finish_linking();
    return 1;
}
/// What a file compiled with -rdc=true calls in the place of __cudaRegisterFatBinary: include/crt/host_runtime.h as build.py changes it.
API void __cudaRegisterLinkedBinary(void (*registers)(void**), void* wrapper, void*, void (*)(void*)) {
    connect();
    static const bool first = (linked_module = new_module(), true);
    (void)first;
    std::string ptx = ptx_of(static_cast<Fatbin*>(wrapper)->data);
    Message(MODULE).u64(linked_module).bytes(ptx.data(), ptx.size()).send();
    std::lock_guard<std::mutex> hold(tables);
    unlinked.push_back(registers);
}
API void __cudaRegisterTexture(void**, const void*, const void**, const char*, int, int, int) {}
API void __cudaRegisterSurface(void**, const void*, const void**, const char*, int, int) {}

API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
    connect();
    configurations().push_back({grid, block, shared, static_cast<cudaStream_t>(stream)});
    return 0;
}
API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
    if (configurations().empty()) return cudaErrorMissingConfiguration;
    Configuration c = configurations().back();
    configurations().pop_back();
    *grid = c.grid, *block = c.block, *shared = c.shared, *static_cast<cudaStream_t*>(stream) = c.stream;
    return cudaSuccess;
}
API cudaError_t __cudaGetKernel(cudaKernel_t* handle, const void* host) {
    *handle = reinterpret_cast<cudaKernel_t>(kernel(host));
    return *handle ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

namespace {
/// A kernel by what the API takes for one: the host's stub, or a handle of cudaGetKernel.
Kernel* any_kernel(const void* f) {
    Kernel* k = kernel(f);
    if (k) return k;
    std::lock_guard<std::mutex> hold(tables);
    for (auto& [host, one] : kernels)
        if (one == f) return one;
    return nullptr;
}
}  // namespace

API cudaError_t __cudaLaunchKernel(cudaKernel_t handle, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
    return launch(reinterpret_cast<Kernel*>(handle), grid, block, arguments, shared, stream, dim3(0, 0, 0), false, "<<<>>>");
}
API cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t handle, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
    return __cudaLaunchKernel(handle, grid, block, arguments, shared, stream);
}

// ---------------------------------------------------------------- launches by the API

API cudaError_t cudaGetKernel(cudaKernel_t* handle, const void* host) {
    ENTER("cudaGetKernel");
    RETURN(__cudaGetKernel(handle, host));
}
API cudaError_t cudaGetFuncBySymbol(cudaFunction_t* handle, const void* host) {
    ENTER("cudaGetFuncBySymbol");
    RETURN(__cudaGetKernel(reinterpret_cast<cudaKernel_t*>(handle), host));
}
API cudaError_t cudaLaunchKernel(const void* f, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
    connect();
    return launch(any_kernel(f), grid, block, arguments, shared, stream, dim3(0, 0, 0), false, "cudaLaunchKernel");
}
API cudaError_t cudaLaunchCooperativeKernel(const void* f, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
    connect();
    return launch(any_kernel(f), grid, block, arguments, shared, stream, dim3(0, 0, 0), true, "cudaLaunchCooperativeKernel");
}
API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* f, void** arguments) {
    connect();
    dim3 cluster(0, 0, 0);
    bool cooperative = false;
    for (unsigned k = 0; k < c->numAttrs; k++) {
        if (c->attrs[k].id == cudaLaunchAttributeClusterDimension)
            cluster = dim3(c->attrs[k].val.clusterDim.x, c->attrs[k].val.clusterDim.y, c->attrs[k].val.clusterDim.z);
        if (c->attrs[k].id == cudaLaunchAttributeCooperative) cooperative = c->attrs[k].val.cooperative;
    }
    return launch(any_kernel(f), c->gridDim, c->blockDim, arguments, c->dynamicSmemBytes, c->stream, cluster, cooperative, "cudaLaunchKernelEx");
}

// ---------------------------------------------------------------- attributes of kernels

API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* f) {
    ENTER("cudaFuncGetAttributes");
    Kernel* k = any_kernel(f);
    if (!k) RETURN(cudaErrorInvalidDeviceFunction);
    cudaError_t error = ask(k);
    if (error != cudaSuccess) RETURN(error);
    Answer found = Message(FUNCTION_RESOURCES).u64(k->number).ask();
    if (found.error != cudaSuccess) RETURN(found.error);
    *attributes = {};
    attributes->numRegs = found.u64();
    attributes->localSizeBytes = found.u64();
    attributes->constSizeBytes = found.u64();
    attributes->ptxVersion = attributes->binaryVersion = found.u64();
    attributes->sharedSizeBytes = k->static_shared;
    attributes->maxThreadsPerBlock = k->most_threads;
    attributes->maxDynamicSharedSizeBytes = k->shared_allowed;
    attributes->preferredShmemCarveout = -1;
    return cudaSuccess;
}
API cudaError_t cudaFuncSetAttribute(const void* f, cudaFuncAttribute attribute, int value) {
    ENTER("cudaFuncSetAttribute");
    Kernel* k = any_kernel(f);
    if (!k) RETURN(cudaErrorInvalidDeviceFunction);
    if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        cudaError_t error = ask(k);
        if (error != cudaSuccess) RETURN(error);
        if (value < 0 || value + k->static_shared > k->shared_limit) RETURN(cudaErrorInvalidValue);
        k->shared_allowed = value;
    }
    if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed) k->large_clusters = value;
    return cudaSuccess;
}
API cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { ENTER("cudaFuncSetCacheConfig"); return cudaSuccess; }
API cudaError_t cudaFuncSetSharedMemConfig(const void*, cudaSharedMemConfig) { ENTER("cudaFuncSetSharedMemConfig"); return cudaSuccess; }
API cudaError_t cudaFuncGetName(const char** name, const void* f) {
    ENTER("cudaFuncGetName");
    Kernel* k = any_kernel(f);
    if (!k) RETURN(cudaErrorInvalidDeviceFunction);
    *name = k->name;
    return cudaSuccess;
}
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* f, int threads, size_t shared, unsigned) {
    ENTER("cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    Kernel* k = any_kernel(f);
    if (!k) RETURN(cudaErrorInvalidDeviceFunction);
    if (!blocks || threads <= 0) RETURN(cudaErrorInvalidValue);
    cudaError_t error = ask(k);
    if (error != cudaSuccess) RETURN(error);
    Answer found = Message(OCCUPANCY).u64(k->number).u64(threads).u64(shared).ask();
    *blocks = found.u64();
    RETURN(found.error);
}
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* f, int threads, size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, f, threads, shared, 0);
}
API cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* shared, const void* f, int blocks, int threads) {
    ENTER("cudaOccupancyAvailableDynamicSMemPerBlock");
    Kernel* k = any_kernel(f);
    if (!k) RETURN(cudaErrorInvalidDeviceFunction);
    if (!shared || blocks <= 0 || threads <= 0) RETURN(cudaErrorInvalidValue);
    cudaError_t error = ask(k);
    if (error != cudaSuccess) RETURN(error);
    for (size_t bytes = k->shared_limit - k->static_shared;; bytes -= 128) {
        Answer found = Message(OCCUPANCY).u64(k->number).u64(threads).u64(bytes).ask();
        if (found.error != cudaSuccess) RETURN(found.error);
        if (*shared = bytes; found.u64() >= static_cast<uint64_t>(blocks)) return cudaSuccess;
        if (bytes < 128) RETURN(cudaErrorInvalidValue);
    }
}
namespace {
dim3 cluster_of(const cudaLaunchConfig_t* c) {
    for (unsigned k = 0; k < c->numAttrs; k++)
        if (c->attrs[k].id == cudaLaunchAttributeClusterDimension)
            return dim3(c->attrs[k].val.clusterDim.x, c->attrs[k].val.clusterDim.y, c->attrs[k].val.clusterDim.z);
    return dim3(1, 1, 1);
}
}  // namespace
API cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* f, const cudaLaunchConfig_t*) {
    ENTER("cudaOccupancyMaxPotentialClusterSize");
    Kernel* k = any_kernel(f);
    if (!k) RETURN(cudaErrorInvalidDeviceFunction);
    int has = 0;
    cudaDeviceGetAttribute(&has, cudaDevAttrClusterLaunch, 0);
    *size = !has ? 1 : k->large_clusters ? 16 : 8;  // 8: what every GPU with clusters takes
    return cudaSuccess;
}
API cudaError_t cudaOccupancyMaxActiveClusters(int* count, const void* f, const cudaLaunchConfig_t* c) {
    ENTER("cudaOccupancyMaxActiveClusters");
    int blocks = 0, multiprocessors = 0;
    cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, c->blockDim.x * c->blockDim.y * c->blockDim.z, c->dynamicSmemBytes);
    if (error != cudaSuccess) return error;
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
    dim3 cluster = cluster_of(c);
    *count = blocks * multiprocessors / static_cast<int>(cluster.x * cluster.y * cluster.z);
    return cudaSuccess;
}
API cudaError_t cudaFuncGetParamInfo(const void* f, size_t index, size_t* offset, size_t* bytes) {
    ENTER("cudaFuncGetParamInfo");
    Kernel* k = any_kernel(f);
    if (!k) RETURN(cudaErrorInvalidDeviceFunction);
    cudaError_t error = ask(k);
    if (error != cudaSuccess) RETURN(error);
    if (!offset || index >= k->parameters.size()) RETURN(cudaErrorInvalidValue);
    *offset = k->parameters[index].offset;
    if (bytes) *bytes = k->parameters[index].bytes;
    return cudaSuccess;
}
API cudaError_t cudaFuncGetParamCount(const void* f, size_t* count) {
    ENTER("cudaFuncGetParamCount");
    Kernel* k = any_kernel(f);
    if (!k) RETURN(cudaErrorInvalidDeviceFunction);
    cudaError_t error = ask(k);
    if (error == cudaSuccess) *count = k->parameters.size();
    RETURN(error);
}
