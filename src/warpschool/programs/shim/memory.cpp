// memory.cpp: allocation, copies, memset, symbols, arrays. The simulator says what may be done; bytes are moved here.
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <string>

#include "channel.h"
#include "modules.h"

namespace warp {

namespace {

constexpr size_t kPitch = 512;  // bytes: the rows of cudaMallocPitch begin at multiples of it

cudaError_t allocate(void** p, size_t bytes, MemoryKind kind) {
    if (!p) return cudaErrorInvalidValue;
    *p = nullptr;
    if (bytes == 0) return kind == MANAGED_MEMORY || kind == POOL_MEMORY ? cudaErrorInvalidValue : cudaSuccess;
    Answer found = Message(ALLOCATE).u64(kind).u64(bytes).u64(1).callers().ask();
    if (found.error != cudaSuccess) return found.error;
    *p = reinterpret_cast<void*>(found.u64());
    if (kind == PINNED_MEMORY) host_access(*p, bytes, true);
    if (kind == MANAGED_MEMORY) managed_add(*p, bytes);
    return cudaSuccess;
}

cudaError_t release(void* p, MemoryKind kind) {
    if (!p) return cudaSuccess;
    if (kind == DEVICE_MEMORY) {  // cudaFree waits for the device
        cudaError_t error = synchronize(0, 0, false);
        if (error != cudaSuccess) return error;
    }
    cudaError_t ended;
    if (graph_memory_end(p, &ended)) return ended;
    Answer found = Message(FREE).u64(kind).address(p).callers().ask();
    if (found.error != cudaSuccess) return found.error;
    managed_remove(p);
    if (kind == PINNED_MEMORY) host_access(p, found.u64(), false);
    return cudaSuccess;
}

cudaError_t set_box(Geometry to, int value, size_t element, size_t width, size_t height, size_t depth, cudaStream_t stream) {
    if (!width || !height || !depth) return cudaSuccess;
    MadeOf made_of;
    if (depth == 1) made_of = cudaMemsetParams{to.start, to.row_bytes, value & 255u, 1, width, height};
    auto work = [=] { return set_box(to, value, element, width, height, depth, nullptr); };
    if (capture(stream, work, cudaGraphNodeTypeMemset, made_of)) return cudaSuccess;
    Answer found = Message(SET).address(to.start).u64(to.row_bytes).u64(to.slice_bytes).u64(width).u64(height).u64(depth)
                       .u64(element).u64(value).u64(stream_number(stream)).callers().ask();
    if (found.error != cudaSuccess) return found.error;
    for (size_t z = 0; z < depth; z++)
        for (size_t y = 0; y < height; y++) memset(arena.reach(to.start + z * to.slice_bytes + y * to.row_bytes), value, width);
    return cudaSuccess;
}

struct Registered {
    char* device;
    size_t bytes;
};
std::map<char*, Registered> registered;
std::mutex registered_mutex;

/// The simulator's address of memory that lies in a registered range: it knows by it that this is pinned. Else the address itself.
const void* as_pinned(const void* start, size_t bytes) {
    std::lock_guard<std::mutex> hold(registered_mutex);
    const char* at = static_cast<const char*>(start);
    auto found = registered.upper_bound(const_cast<char*>(at));
    if (found == registered.begin()) return start;
    --found;
    return at + bytes <= found->first + found->second.bytes ? found->second.device + (at - found->first) : start;
}

cudaMemcpy3DParms copy_parameters(Geometry to, Geometry from, size_t width, size_t height, size_t depth, cudaMemcpyKind kind) {
    auto pitched = [&](const Geometry& side) {
        return cudaPitchedPtr{side.start, side.row_bytes, width, side.row_bytes ? side.slice_bytes / side.row_bytes : height};
    };
    cudaMemcpy3DParms made = {};
    made.srcPtr = pitched(from), made.dstPtr = pitched(to), made.extent = {width, height, depth}, made.kind = kind;
    return made;
}

}  // namespace

cudaError_t copy_box(Geometry to, Geometry from, size_t width, size_t height, size_t depth, cudaMemcpyKind kind, cudaStream_t stream,
                     bool blocking, const char* call) {
    if (!width || !height || !depth) return cudaSuccess;
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    if (!to.start || !from.start) return cudaErrorInvalidValue;
    if ((height > 1 && (to.row_bytes < width || from.row_bytes < width))) return cudaErrorInvalidPitchValue;
    auto work = [=] { return copy_box(to, from, width, height, depth, kind, nullptr, false, call); };
    if (!blocking && capture(stream, work, cudaGraphNodeTypeMemcpy, copy_parameters(to, from, width, height, depth, kind))) return cudaSuccess;
    auto extent = [&](const Geometry& side) { return (depth - 1) * side.slice_bytes + (height - 1) * side.row_bytes + width; };
    const void *target = as_pinned(to.start, extent(to)), *source = as_pinned(from.start, extent(from));
    Answer found = Message(COPY).u64(kind).address(target).u64(to.row_bytes).u64(to.slice_bytes).address(source)
                       .u64(from.row_bytes).u64(from.slice_bytes).u64(width).u64(height).u64(depth)
                       .u64(stream_number(stream)).u64(blocking).callers().ask();
    if (found.error != cudaSuccess) {
        if (found.u64()) set_fatal(found.error);
        return found.error;
    }
    if (blocking) managed_unlock();
    for (size_t z = 0; z < depth; z++)
        for (size_t y = 0; y < height; y++)
            memmove(arena.reach(to.start + z * to.slice_bytes + y * to.row_bytes),
                    arena.reach(from.start + z * from.slice_bytes + y * from.row_bytes), width);
    return cudaSuccess;
}

namespace {

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream, bool blocking, const char* call) {
    return copy_box({static_cast<char*>(to), bytes, bytes}, {static_cast<char*>(const_cast<void*>(from)), bytes, bytes}, bytes, 1, 1,
                    kind, stream, blocking, call);
}

Array* array_of(cudaArray_const_t a) { return reinterpret_cast<Array*>(const_cast<cudaArray*>(a)); }

Geometry of_array(cudaArray_const_t array, size_t x_bytes, size_t y, size_t z) {
    Array* a = array_of(array);
    size_t slice = a->row_bytes * (a->height ? a->height : 1);
    return {a->address + z * slice + y * a->row_bytes + x_bytes, a->row_bytes, slice};
}

cudaError_t copy_3d(const cudaMemcpy3DParms* p, cudaStream_t stream, bool blocking, const char* call) {
    if (!p) return cudaErrorInvalidValue;
    size_t element = p->srcArray ? array_of(p->srcArray)->texel_bytes : p->dstArray ? array_of(p->dstArray)->texel_bytes : 1;
    auto place = [&](cudaArray_t array, cudaPos at, cudaPitchedPtr memory) -> Geometry {
        if (array) return of_array(array, at.x * element, at.y, at.z);
        size_t slice = memory.pitch * memory.ysize;
        return {static_cast<char*>(memory.ptr) + at.z * slice + at.y * memory.pitch + at.x, memory.pitch, slice};
    };
    return copy_box(place(p->dstArray, p->dstPos, p->dstPtr), place(p->srcArray, p->srcPos, p->srcPtr), p->extent.width * element,
                    p->extent.height ? p->extent.height : 1, p->extent.depth ? p->extent.depth : 1, p->kind, stream, blocking, call);
}

/// Bytes of a box of an array that is filled row after row, as cudaMemcpyToArray fills it.
cudaError_t copy_rows(cudaArray_const_t array, size_t x, size_t y, char* other, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream,
                      bool into, bool blocking, const char* call) {
    size_t row = array_of(array)->width * array_of(array)->texel_bytes;
    while (bytes) {
        size_t part = bytes < row - x ? bytes : row - x;
        Geometry inside = of_array(array, x, y, 0), outside = {other, part, part};
        cudaError_t error = into ? copy_box(inside, outside, part, 1, 1, kind, stream, blocking, call)
                                 : copy_box(outside, inside, part, 1, 1, kind, stream, blocking, call);
        if (error != cudaSuccess) return error;
        other += part, bytes -= part, x = 0, y++;
    }
    return cudaSuccess;
}

cudaError_t make_array(cudaArray_t* array, const cudaChannelFormatDesc* desc, cudaExtent extent, unsigned flags) {
    if (!array || !desc || !extent.width) return cudaErrorInvalidValue;
    if (flags & (cudaArraySparse | cudaArrayDeferredMapping)) return unsupported("cudaMallocArray of a sparse array");
    int channels = (desc->x > 0) + (desc->y > 0) + (desc->z > 0) + (desc->w > 0);
    Answer found = Message(ARRAY).u64(extent.width).u64(extent.height).u64(extent.depth).u64(flags & (cudaArrayLayered | cudaArrayCubemap))
                       .u64(desc->x).u64(channels).u64(desc->f).callers().ask();
    if (found.error != cudaSuccess) return found.error;
    uint64_t number = found.u64();
    char* address = reinterpret_cast<char*>(found.u64());
    size_t row = found.u64();
    *array = reinterpret_cast<cudaArray_t>(new Array{number, address, row, extent.width, extent.height, extent.depth,
                                                     size_t(desc->x + desc->y + desc->z + desc->w) / 8, *desc, flags});
    return cudaSuccess;
}

}  // namespace
}  // namespace warp

using namespace warp;

// ---------------------------------------------------------------- allocation

API cudaError_t cudaMalloc(void** p, size_t bytes) { ENTER("cudaMalloc"); RETURN(allocate(p, bytes, DEVICE_MEMORY)); }
API cudaError_t cudaMallocManaged(void** p, size_t bytes, unsigned flags) {
    ENTER("cudaMallocManaged");
    if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost) RETURN(cudaErrorInvalidValue);
    RETURN(allocate(p, bytes, MANAGED_MEMORY));
}
API cudaError_t cudaMallocHost(void** p, size_t bytes) { ENTER("cudaMallocHost"); RETURN(allocate(p, bytes, PINNED_MEMORY)); }
API cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned) { ENTER("cudaHostAlloc"); RETURN(allocate(p, bytes, PINNED_MEMORY)); }
API cudaError_t cudaFree(void* p) { ENTER("cudaFree"); RETURN(release(p, DEVICE_MEMORY)); }
API cudaError_t cudaFreeHost(void* p) { ENTER("cudaFreeHost"); RETURN(release(p, PINNED_MEMORY)); }

API cudaError_t cudaMallocPitch(void** p, size_t* pitch, size_t width, size_t height) {
    ENTER("cudaMallocPitch");
    if (!p || !pitch) RETURN(cudaErrorInvalidValue);
    *pitch = (width + kPitch - 1) / kPitch * kPitch;
    RETURN(allocate(p, *pitch * height, DEVICE_MEMORY));
}

API cudaError_t cudaMalloc3D(cudaPitchedPtr* p, cudaExtent extent) {
    ENTER("cudaMalloc3D");
    if (!p) RETURN(cudaErrorInvalidValue);
    *p = {nullptr, (extent.width + kPitch - 1) / kPitch * kPitch, extent.width, extent.height};
    RETURN(allocate(&p->ptr, p->pitch * extent.height * extent.depth, DEVICE_MEMORY));
}

API cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
    ENTER("cudaHostGetDevicePointer");
    if (!device) RETURN(cudaErrorInvalidValue);
    if (arena.holds(host)) {
        *device = host;
        return cudaSuccess;
    }
    std::lock_guard<std::mutex> hold(registered_mutex);
    auto found = registered.upper_bound(static_cast<char*>(host));
    if (found == registered.begin() || static_cast<char*>(host) >= std::prev(found)->first + std::prev(found)->second.bytes)
        RETURN(cudaErrorInvalidValue);
    --found;
    *device = found->second.device + (static_cast<char*>(host) - found->first);
    return cudaSuccess;
}

API cudaError_t cudaHostGetFlags(unsigned* flags, void* host) {
    ENTER("cudaHostGetFlags");
    if (!flags || !arena.holds(host)) RETURN(cudaErrorInvalidValue);
    *flags = cudaHostAllocMapped;
    return cudaSuccess;
}

/// The program's own pages become pages of the device's memory, with what they hold.
API cudaError_t cudaHostRegister(void* host, size_t bytes, unsigned) {
    ENTER("cudaHostRegister");
    if (!host || !bytes || arena.holds(host)) RETURN(cudaErrorInvalidValue);
    uintptr_t page = sysconf(_SC_PAGESIZE), start = reinterpret_cast<uintptr_t>(host);
    uintptr_t first = start / page * page, last = (start + bytes + page - 1) / page * page;
    std::lock_guard<std::mutex> hold(registered_mutex);
    if (registered.count(static_cast<char*>(host))) RETURN(cudaErrorHostMemoryAlreadyRegistered);
    Answer found = Message(ALLOCATE).u64(REGISTERED_MEMORY).u64(last - first).u64(page).callers().ask();
    if (found.error != cudaSuccess) RETURN(found.error);
    char* device = reinterpret_cast<char*>(found.u64());
    memcpy(arena.reach(device), reinterpret_cast<void*>(first), last - first);
    mremap(arena.reach(device), 0, last - first, MREMAP_MAYMOVE | MREMAP_FIXED, reinterpret_cast<void*>(first));
    registered[static_cast<char*>(host)] = {device + (start - first), bytes};
    return cudaSuccess;
}

API cudaError_t cudaHostUnregister(void* host) {
    ENTER("cudaHostUnregister");
    uintptr_t page = sysconf(_SC_PAGESIZE), start = reinterpret_cast<uintptr_t>(host);
    std::lock_guard<std::mutex> hold(registered_mutex);
    auto found = registered.find(static_cast<char*>(host));
    if (found == registered.end()) RETURN(cudaErrorHostMemoryNotRegistered);
    uintptr_t first = start / page * page, last = (start + found->second.bytes + page - 1) / page * page;
    char* device = found->second.device - (start - first);
    mmap(reinterpret_cast<void*>(first), last - first, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    memcpy(reinterpret_cast<void*>(first), arena.reach(device), last - first);
    registered.erase(found);
    RETURN(Message(FREE).u64(REGISTERED_MEMORY).address(device).callers().ask().error);
}

API cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
    ENTER("cudaMemGetInfo");
    Answer found = Message(MEMORY_INFO).ask();
    size_t values[2] = {found.u64(), found.u64()};
    if (free_bytes) *free_bytes = values[0];
    if (total) *total = values[1];
    return cudaSuccess;
}

API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
    ENTER("cudaPointerGetAttributes");
    if (!attributes) RETURN(cudaErrorInvalidValue);
    *attributes = {};
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -2;
    if (!arena.holds(p)) {
        attributes->hostPointer = const_cast<void*>(p);
        return cudaSuccess;
    }
    uint64_t kind = Message(POINTER).address(p).ask().u64();
    if (kind == UNKNOWN_MEMORY) return cudaSuccess;
    attributes->device = 0;
    attributes->type = kind == PINNED_MEMORY ? cudaMemoryTypeHost : kind == MANAGED_MEMORY ? cudaMemoryTypeManaged : cudaMemoryTypeDevice;
    attributes->devicePointer = const_cast<void*>(p);
    attributes->hostPointer = attributes->type == cudaMemoryTypeDevice ? nullptr : const_cast<void*>(p);
    return cudaSuccess;
}

API cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, cudaMemLocation) { ENTER("cudaMemAdvise"); return cudaSuccess; }
API cudaError_t cudaMemPrefetchAsync(const void* p, size_t bytes, cudaMemLocation, unsigned, cudaStream_t) {
    ENTER("cudaMemPrefetchAsync");
    if (!arena.holds(p) || !bytes) RETURN(cudaErrorInvalidValue);
    return cudaSuccess;
}
API cudaError_t cudaMemRangeGetAttribute(void* data, size_t size, cudaMemRangeAttribute attribute, const void* p, size_t) {
    ENTER("cudaMemRangeGetAttribute");
    if (!data || !arena.holds(p) || size < 4) RETURN(cudaErrorInvalidValue);
    // managed memory is here and there at once: no advice changes anything
    bool place = attribute == cudaMemRangeAttributePreferredLocation || attribute == cudaMemRangeAttributeLastPrefetchLocation;
    for (size_t k = 0; k < size / 4; k++) static_cast<int*>(data)[k] = place || attribute == cudaMemRangeAttributeAccessedBy ? cudaInvalidDeviceId : 0;
    return cudaSuccess;
}
API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, size_t) { ENTER("cudaMemPoolSetAccess"); return cudaSuccess; }
API cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t, cudaMemLocation*) {
    ENTER("cudaMemPoolGetAccess");
    *flags = cudaMemAccessFlagsProtReadWrite;
    return cudaSuccess;
}
API cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void*, size_t, unsigned) { ENTER("cudaStreamAttachMemAsync"); return cudaSuccess; }

// ---------------------------------------------------------------- stream-ordered allocation

namespace {
cudaError_t allocate_in_order(void** p, size_t bytes, cudaStream_t stream) {
    cudaError_t error = allocate(p, bytes, POOL_MEMORY);
    if (error == cudaSuccess && capturing(stream)) capture_memory(stream, *p, bytes);
    return error;
}
}  // namespace

API cudaError_t cudaMallocAsync(void** p, size_t bytes, cudaStream_t stream) { ENTER("cudaMallocAsync"); RETURN(allocate_in_order(p, bytes, stream)); }
API cudaError_t cudaMallocFromPoolAsync(void** p, size_t bytes, cudaMemPool_t, cudaStream_t stream) {
    ENTER("cudaMallocFromPoolAsync");
    RETURN(allocate_in_order(p, bytes, stream));
}
API cudaError_t cudaFreeAsync(void* p, cudaStream_t stream) {
    ENTER("cudaFreeAsync");
    if (!p) RETURN(cudaErrorInvalidValue);
    if (capture(stream, [=] { return cudaFreeAsync(p, stream); }, cudaGraphNodeTypeMemFree)) return cudaSuccess;
    RETURN(release(p, POOL_MEMORY));
}

namespace {
struct Pool {
    uint64_t threshold = 0;
} default_pool;
cudaMemPool_t pool_handle(Pool* pool) { return reinterpret_cast<cudaMemPool_t>(pool); }
}  // namespace

API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
    ENTER("cudaDeviceGetDefaultMemPool");
    *pool = pool_handle(&default_pool);
    return cudaSuccess;
}
API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int) {
    ENTER("cudaDeviceGetMemPool");
    *pool = pool_handle(&default_pool);
    return cudaSuccess;
}
API cudaError_t cudaDeviceSetMemPool(int, cudaMemPool_t) { ENTER("cudaDeviceSetMemPool"); return cudaSuccess; }
API cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
    ENTER("cudaMemPoolCreate");
    *pool = pool_handle(new Pool);
    return cudaSuccess;
}
API cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    ENTER("cudaMemPoolDestroy");
    if (pool != pool_handle(&default_pool)) delete reinterpret_cast<Pool*>(pool);
    return cudaSuccess;
}
API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { ENTER("cudaMemPoolTrimTo"); return cudaSuccess; }
API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
    ENTER("cudaMemPoolSetAttribute");
    if (attribute == cudaMemPoolAttrReleaseThreshold) reinterpret_cast<Pool*>(pool)->threshold = *static_cast<uint64_t*>(value);
    return cudaSuccess;
}
API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
    ENTER("cudaMemPoolGetAttribute");
    if (attribute == cudaMemPoolAttrReleaseThreshold) {
        *static_cast<uint64_t*>(value) = reinterpret_cast<Pool*>(pool)->threshold;
        return cudaSuccess;
    }
    if (attribute < cudaMemPoolAttrReservedMemCurrent) {  // the three kinds of reuse, which are all allowed
        *static_cast<int*>(value) = 1;
        return cudaSuccess;
    }
    size_t available, total;  // what is allocated now, by whatever call
    cudaMemGetInfo(&available, &total);
    *static_cast<uint64_t*>(value) = total - available;
    return cudaSuccess;
}

// ---------------------------------------------------------------- copies

API cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    ENTER("cudaMemcpy");
    RETURN(copy(to, from, bytes, kind, nullptr, true, kCall));
}
API cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    ENTER("cudaMemcpyAsync");
    RETURN(copy(to, from, bytes, kind, stream, false, kCall));
}
API cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
    ENTER("cudaMemcpyPeer");
    if (to_device || from_device) RETURN(cudaErrorInvalidDevice);
    RETURN(copy(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr, true, kCall));
}
API cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes, cudaStream_t stream) {
    ENTER("cudaMemcpyPeerAsync");
    if (to_device || from_device) RETURN(cudaErrorInvalidDevice);
    RETURN(copy(to, from, bytes, cudaMemcpyDeviceToDevice, stream, false, kCall));
}

#define PLACE(p, pitch) {static_cast<char*>(const_cast<void*>(static_cast<const void*>(p))), pitch, 0}

API cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, cudaMemcpyKind kind) {
    ENTER("cudaMemcpy2D");
    RETURN(copy_box(PLACE(to, to_pitch), PLACE(from, from_pitch), width, height, 1, kind, nullptr, true, kCall));
}
API cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                                  cudaMemcpyKind kind, cudaStream_t stream) {
    ENTER("cudaMemcpy2DAsync");
    RETURN(copy_box(PLACE(to, to_pitch), PLACE(from, from_pitch), width, height, 1, kind, stream, false, kCall));
}
API cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* p) { ENTER("cudaMemcpy3D"); RETURN(copy_3d(p, nullptr, true, kCall)); }
API cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t stream) {
    ENTER("cudaMemcpy3DAsync");
    RETURN(copy_3d(p, stream, false, kCall));
}
API cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch, size_t width, size_t height,
                                    cudaMemcpyKind kind) {
    ENTER("cudaMemcpy2DToArray");
    RETURN(copy_box(of_array(to, x, y, 0), PLACE(from, pitch), width, height, 1, kind, nullptr, true, kCall));
}
API cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch, size_t width, size_t height,
                                         cudaMemcpyKind kind, cudaStream_t stream) {
    ENTER("cudaMemcpy2DToArrayAsync");
    RETURN(copy_box(of_array(to, x, y, 0), PLACE(from, pitch), width, height, 1, kind, stream, false, kCall));
}
API cudaError_t cudaMemcpy2DFromArray(void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width, size_t height,
                                      cudaMemcpyKind kind) {
    ENTER("cudaMemcpy2DFromArray");
    RETURN(copy_box(PLACE(to, pitch), of_array(from, x, y, 0), width, height, 1, kind, nullptr, true, kCall));
}
API cudaError_t cudaMemcpy2DFromArrayAsync(void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width, size_t height,
                                           cudaMemcpyKind kind, cudaStream_t stream) {
    ENTER("cudaMemcpy2DFromArrayAsync");
    RETURN(copy_box(PLACE(to, pitch), of_array(from, x, y, 0), width, height, 1, kind, stream, false, kCall));
}
API cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t to, size_t x, size_t y, cudaArray_const_t from, size_t from_x, size_t from_y,
                                         size_t width, size_t height, cudaMemcpyKind kind) {
    ENTER("cudaMemcpy2DArrayToArray");
    RETURN(copy_box(of_array(to, x, y, 0), of_array(from, from_x, from_y, 0), width, height, 1, kind, nullptr, true, kCall));
}
API cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t bytes, cudaMemcpyKind kind) {
    ENTER("cudaMemcpyToArray");
    RETURN(copy_rows(to, x, y, static_cast<char*>(const_cast<void*>(from)), bytes, kind, nullptr, true, true, kCall));
}
API cudaError_t cudaMemcpyFromArray(void* to, cudaArray_const_t from, size_t x, size_t y, size_t bytes, cudaMemcpyKind kind) {
    ENTER("cudaMemcpyFromArray");
    RETURN(copy_rows(from, x, y, static_cast<char*>(to), bytes, kind, nullptr, false, true, kCall));
}

API cudaError_t cudaMemcpyToArrayAsync(cudaArray_t to, size_t x, size_t y, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    ENTER("cudaMemcpyToArrayAsync");
    RETURN(copy_rows(to, x, y, static_cast<char*>(const_cast<void*>(from)), bytes, kind, stream, true, false, kCall));
}
API cudaError_t cudaMemcpyFromArrayAsync(void* to, cudaArray_const_t from, size_t x, size_t y, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    ENTER("cudaMemcpyFromArrayAsync");
    RETURN(copy_rows(from, x, y, static_cast<char*>(to), bytes, kind, stream, false, false, kCall));
}
API cudaError_t cudaMemcpyArrayToArray(cudaArray_t to, size_t x, size_t y, cudaArray_const_t from, size_t from_x, size_t from_y, size_t bytes,
                                       cudaMemcpyKind kind) {
    ENTER("cudaMemcpyArrayToArray");
    RETURN(copy_rows(to, x, y, of_array(from, from_x, from_y, 0).start, bytes, kind, nullptr, true, true, kCall));
}
API cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* p) {
    ENTER("cudaMemcpy3DPeer");
    if (p->srcDevice || p->dstDevice) RETURN(cudaErrorInvalidDevice);
    cudaMemcpy3DParms same = {p->srcArray, p->srcPos, p->srcPtr, p->dstArray, p->dstPos, p->dstPtr, p->extent, cudaMemcpyDeviceToDevice};
    RETURN(copy_3d(&same, nullptr, true, kCall));
}
API cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* p, cudaStream_t stream) {
    ENTER("cudaMemcpy3DPeerAsync");
    if (p->srcDevice || p->dstDevice) RETURN(cudaErrorInvalidDevice);
    cudaMemcpy3DParms same = {p->srcArray, p->srcPos, p->srcPtr, p->dstArray, p->dstPos, p->dstPtr, p->extent, cudaMemcpyDeviceToDevice};
    RETURN(copy_3d(&same, stream, false, kCall));
}

// ---------------------------------------------------------------- memset

API cudaError_t cudaMemset(void* p, int value, size_t bytes) {
    ENTER("cudaMemset");
    RETURN(set_box(PLACE(p, bytes), value, 1, bytes, 1, 1, nullptr));
}
API cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t stream) {
    ENTER("cudaMemsetAsync");
    RETURN(set_box(PLACE(p, bytes), value, 1, bytes, 1, 1, stream));
}
API cudaError_t cudaMemset2D(void* p, size_t pitch, int value, size_t width, size_t height) {
    ENTER("cudaMemset2D");
    RETURN(set_box(PLACE(p, pitch), value, 1, width, height, 1, nullptr));
}
API cudaError_t cudaMemset2DAsync(void* p, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
    ENTER("cudaMemset2DAsync");
    RETURN(set_box(PLACE(p, pitch), value, 1, width, height, 1, stream));
}
API cudaError_t cudaMemset3D(cudaPitchedPtr p, int value, cudaExtent extent) {
    ENTER("cudaMemset3D");
    RETURN(set_box({static_cast<char*>(p.ptr), p.pitch, p.pitch * p.ysize}, value, 1, extent.width, extent.height, extent.depth, nullptr));
}
API cudaError_t cudaMemset3DAsync(cudaPitchedPtr p, int value, cudaExtent extent, cudaStream_t stream) {
    ENTER("cudaMemset3DAsync");
    RETURN(set_box({static_cast<char*>(p.ptr), p.pitch, p.pitch * p.ysize}, value, 1, extent.width, extent.height, extent.depth, stream));
}

// ---------------------------------------------------------------- symbols

API cudaError_t cudaGetSymbolAddress(void** p, const void* symbol) {
    ENTER("cudaGetSymbolAddress");
    Variable* found = variable(symbol);
    if (!found) RETURN(cudaErrorInvalidSymbol);
    *p = found->address;
    return cudaSuccess;
}
API cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
    ENTER("cudaGetSymbolSize");
    Variable* found = variable(symbol);
    if (!found) RETURN(cudaErrorInvalidSymbol);
    *bytes = found->bytes;
    return cudaSuccess;
}

namespace {
cudaError_t copy_symbol(const void* symbol, const void* other, size_t bytes, size_t offset, cudaMemcpyKind kind, cudaStream_t stream,
                        bool into, bool blocking, const char* call) {
    Variable* found = variable(symbol);
    if (!found) return cudaErrorInvalidSymbol;
    if (offset + bytes > found->bytes) return cudaErrorInvalidValue;
    char* inside = found->address + offset;
    return into ? copy(inside, other, bytes, kind, stream, blocking, call)
                : copy(const_cast<void*>(other), inside, bytes, kind, stream, blocking, call);
}
}  // namespace

API cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
    ENTER("cudaMemcpyToSymbol");
    RETURN(copy_symbol(symbol, from, bytes, offset, kind, nullptr, true, true, kCall));
}
API cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind) {
    ENTER("cudaMemcpyFromSymbol");
    RETURN(copy_symbol(symbol, to, bytes, offset, kind, nullptr, false, true, kCall));
}
API cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind,
                                        cudaStream_t stream) {
    ENTER("cudaMemcpyToSymbolAsync");
    RETURN(copy_symbol(symbol, from, bytes, offset, kind, stream, true, false, kCall));
}
API cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
                                          cudaStream_t stream) {
    ENTER("cudaMemcpyFromSymbolAsync");
    RETURN(copy_symbol(symbol, to, bytes, offset, kind, stream, false, false, kCall));
}

// ---------------------------------------------------------------- arrays

API cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* desc, size_t width, size_t height, unsigned flags) {
    ENTER("cudaMallocArray");
    RETURN(make_array(array, desc, {width, height, 0}, flags));
}
API cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* desc, cudaExtent extent, unsigned flags) {
    ENTER("cudaMalloc3DArray");
    RETURN(make_array(array, desc, extent, flags));
}
API cudaError_t cudaFreeArray(cudaArray_t array) {
    ENTER("cudaFreeArray");
    if (!array) return cudaSuccess;
    cudaError_t error = Message(ARRAY_FREE).u64(array_of(array)->number).callers().ask().error;
    delete array_of(array);
    RETURN(error);
}
API cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* desc, cudaExtent* extent, unsigned* flags, cudaArray_t array) {
    ENTER("cudaArrayGetInfo");
    Array* a = array_of(array);
    if (desc) *desc = a->format;
    if (extent) *extent = {a->width, a->height, a->depth};
    if (flags) *flags = a->flags;
    return cudaSuccess;
}
API cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* desc, cudaArray_const_t array) {
    ENTER("cudaGetChannelDesc");
    *desc = array_of(array)->format;
    return cudaSuccess;
}
API cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind f) { return {x, y, z, w, f}; }
