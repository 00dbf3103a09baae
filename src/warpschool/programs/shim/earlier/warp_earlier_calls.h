// warp_earlier_calls.h: calls that CUDA 13 took out of its interface or changed, as they were. Our copy of cuda_runtime_api.h ends with it,
// so that host files of C and C++ find them, too.
#pragma once
#if CUDART_VERSION >= 13000
static inline cudaError_t cudaThreadSynchronize(void) { return cudaDeviceSynchronize(); }
static inline cudaError_t cudaThreadExit(void) { return cudaDeviceReset(); }
static inline cudaError_t cudaThreadSetLimit(enum cudaLimit limit, size_t value) { return cudaDeviceSetLimit(limit, value); }
static inline cudaError_t cudaThreadGetLimit(size_t* value, enum cudaLimit limit) { return cudaDeviceGetLimit(value, limit); }
static inline cudaError_t cudaThreadSetCacheConfig(enum cudaFuncCache config) { return cudaDeviceSetCacheConfig(config); }

#if defined(__cplusplus)
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
#endif
