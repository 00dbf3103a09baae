// modules.h: what the program's own kernels and variables are called on both sides.
#pragma once
#include <cuda.h>

#include <string>

#include "channel.h"

namespace warp {

struct Parameter {
    size_t offset, bytes;
};

/// A kernel. What `asked` says is known from its first launch on.
struct Kernel {
    uint64_t number, module;
    const void* host;
    const char* name;
    bool asked = false;
    uint64_t most_threads = 0, static_shared = 0, shared_limit = 0;
    std::vector<Parameter> parameters;
    uint64_t shared_allowed = 48 << 10;  // cudaFuncAttributeMaxDynamicSharedMemorySize
    bool large_clusters = false;         // cudaFuncAttributeNonPortableClusterSizeAllowed
};

struct Variable {
    uint64_t module;
    const char* name;
    char* address = nullptr;  // until it is asked for
    size_t bytes = 0;
};

/// What the driver API calls an error of the runtime's.
CUresult as_driver(cudaError_t error);
/// The PTX of a fat binary, which fatbinary wrote uncompressed; "" of anything else.
std::string ptx_of(const void* fat_binary);
/// A module of PTX, by its number; and a kernel of it.
uint64_t add_module(const char* ptx, size_t size);
Kernel* add_kernel(uint64_t module, const void* host, const char* name);
Kernel* kernel(const void* host);
Variable* variable(const void* symbol);
/// What the simulator knows of a kernel; its error where the kernel cannot be run.
cudaError_t ask(Kernel* kernel);
cudaError_t launch(Kernel* kernel, dim3 grid, dim3 block, const void* const* arguments, size_t shared, cudaStream_t stream, dim3 cluster,
                   bool cooperative, const char* call);

}  // namespace warp
