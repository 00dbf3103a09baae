// wire.h: what the program's process and the simulator's say to each other. Python reads this file too: one list of requests.
//
// A request is {uint64 size of the whole, uint64 request} and fields of 8 bytes; bytes are a length and, padded to 8, the bytes.
// An answer is {uint64 size of the whole, int64 cudaError_t, bytes printed by kernels} and fields.
#pragma once
#include <cstdint>

enum Request : uint64_t {
    HELLO,              // pid, what is loaded as /proc/PID/maps says it (bytes) -> base, capacity, device_properties in their order, name (bytes), compute capability * 10
    MODULE,             // module, PTX (bytes)
    FUNCTION,           // function, module, name (bytes), readable name (bytes)
    FUNCTION_ASK,       // function -> most threads, static shared bytes, most dynamic shared bytes, parameters, then offset and size of each
    FUNCTION_RESOURCES, // function -> registers, local bytes, constant bytes, PTX version * 10
    LAUNCH,             // function, grid x y z, block x y z, shared bytes, stream, cluster x y z, cooperative, parameters (bytes), callers
    SYMBOL,             // module, name (bytes) -> address, bytes
    MANAGED_SYMBOL,     // module, name (bytes) -> address, bytes
    ALLOCATE,           // kind of memory, bytes, alignment, callers -> address
    FREE,               // kind of memory, address, callers -> bytes
    COPY,               // kind, to, its row and slice bytes, from, its row and slice bytes, width, height, depth, stream, blocking, callers
    SET,                // to, its row and slice bytes, width, height, depth, element bytes, value, stream, callers
    SYNCHRONIZE,        // what (0 device, 1 stream, 2 event), stream, callers: none where another call waits
    EVENT_RECORD,       // event, stream
    EVENT_DESTROY,      // event
    STREAM_WAIT,        // stream, event
    STREAM_DESTROY,     // stream
    ELAPSED,            // event, event -> nanoseconds
    ATTRIBUTE,          // cudaDeviceAttr -> value, whether there is one
    MEMORY_INFO,        // -> free bytes, all bytes
    POINTER,            // address -> kind of memory, start, bytes
    OCCUPANCY,          // function, threads of a block, dynamic shared bytes -> blocks of a multiprocessor
    HEAP_LIMIT,         // bytes, 0 for a question -> the limits of the heap, of a thread's stack, of what is printed
    STACK_LIMIT,        // bytes
    ARRAY,              // width, height, depth, cudaArrayLayered and cudaArrayCubemap, bits of a channel, channels, kind of channel, callers -> array, address, row bytes
    ARRAY_FREE,         // array, callers
    TEXTURE,            // kind, array or address, width, height, pitch, bits, channels, kind of channel, address modes x y z, filter, read,
                        // normalized, border r g b a (bits of float) -> handle
    SURFACE,            // array -> handle
    UNBIND,             // handle
    API_ERROR,          // error, name of the call (bytes), callers
    LAUNCH_ERROR,       // error, function, grid x y z, block x y z, shared bytes, name of the call or <<<>>> (bytes), callers
    ERROR_SEEN,         // somebody asked for the last error
    TOUCHED,            // address, whether the program can go on, callers: the host used device memory, or managed memory too early
    CRASH,              // signal, address, callers
    RESET,              // cudaDeviceReset
    UNSUPPORTED,        // name of the call (bytes), callers
    LIBRARY,            // name of the routine (bytes), stream, its own fields (bytes), callers -> result (bits of double)
    TENSOR_MAP,         // name of the call (bytes), where the map goes, CUtensorMapDataType, rank, address, interleave, swizzle, L2 promotion, fill,
                        // then sizes, strides, box (of im2col channels and places), steps, lower and upper corner, each: whether it was
                        // given, numbers of 8 bytes (bytes); callers -> map (bytes)
    TENSOR_MAP_ADDRESS, // map (bytes), address, callers -> map (bytes)
    GOODBYE,            // exit status
    REQUESTS
};

constexpr uint64_t NON_BLOCKING = uint64_t(1) << 40;  // in a stream's number: it does not wait for the default stream, nor that for it

enum MemoryKind : uint64_t { UNKNOWN_MEMORY, DEVICE_MEMORY, MANAGED_MEMORY, PINNED_MEMORY, POOL_MEMORY, SYMBOL_MEMORY, ARRAY_MEMORY, REGISTERED_MEMORY };

// Fields of cudaDeviceProp that a program sees, in the order in which HELLO answers with them.
#define DEVICE_PROPERTIES(field) \
    field(totalGlobalMem) field(sharedMemPerBlock) field(regsPerBlock) field(warpSize) field(memPitch) \
    field(maxThreadsPerBlock) field(maxThreadsDim[0]) field(maxThreadsDim[1]) field(maxThreadsDim[2]) \
    field(maxGridSize[0]) field(maxGridSize[1]) field(maxGridSize[2]) field(totalConstMem) field(major) field(minor) \
    field(textureAlignment) field(texturePitchAlignment) field(multiProcessorCount) field(integrated) \
    field(canMapHostMemory) field(maxTexture1D) field(maxTexture2D[0]) field(maxTexture2D[1]) field(maxTexture3D[0]) \
    field(maxTexture3D[1]) field(maxTexture3D[2]) field(surfaceAlignment) field(concurrentKernels) field(ECCEnabled) \
    field(pciBusID) field(pciDeviceID) field(pciDomainID) field(asyncEngineCount) field(unifiedAddressing) \
    field(memoryBusWidth) field(l2CacheSize) field(persistingL2CacheMaxSize) field(accessPolicyMaxWindowSize) \
    field(maxThreadsPerMultiProcessor) \
    field(streamPrioritiesSupported) field(globalL1CacheSupported) field(localL1CacheSupported) \
    field(sharedMemPerMultiprocessor) field(regsPerMultiprocessor) field(managedMemory) field(concurrentManagedAccess) \
    field(cooperativeLaunch) field(sharedMemPerBlockOptin) field(maxBlocksPerMultiProcessor) \
    field(reservedSharedMemPerBlock) field(hostRegisterSupported) field(memoryPoolsSupported) field(clusterLaunch)
