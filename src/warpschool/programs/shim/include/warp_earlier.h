// warp_earlier.h: what CUDA 13 took out of its interface and programs of CUDA 8 to 12 still use. Included before every .cu file,
// with a copy of driver_types.h in which cudaDeviceProp has its earlier fields in the place of reserved ones.
#pragma once
#if defined(__cplusplus) && defined(__CUDACC__) && CUDART_VERSION >= 13000
#include <cuda_runtime_api.h>

static inline cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
static inline cudaError_t cudaThreadExit() { return cudaDeviceReset(); }
static inline cudaMemLocation warp_location(int device)
{
    cudaMemLocation where = {};
    where.type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
    where.id = device == cudaCpuDeviceId ? 0 : device;
    return where;
}
static inline cudaError_t cudaMemPrefetchAsync(const void* p, size_t bytes, int device, cudaStream_t stream = 0)
{
    return cudaMemPrefetchAsync(p, bytes, warp_location(device), 0, stream);
}
static inline cudaError_t cudaMemAdvise(const void* p, size_t bytes, cudaMemoryAdvise advice, int device)
{
    return cudaMemAdvise(p, bytes, advice, warp_location(device));
}
static inline cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, size_t count)
{
    return cudaGraphAddDependencies(graph, from, to, nullptr, count);
}
#endif
