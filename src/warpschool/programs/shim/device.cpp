// device.cpp: the device itself, streams, events.
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <string>
#include <thread>

#include "channel.h"

namespace warp {

extern std::vector<uint64_t> device_values;
extern std::string device_name;

namespace {
struct Stream {
    uint64_t number;
    unsigned flags;
    int priority;
};
struct Event {
    uint64_t number;
    unsigned flags;
    bool recorded;
};
std::atomic<uint64_t> streams{1}, events{0};  // stream 0 is the default one
std::atomic<size_t> persisting_bytes{0}, print_bytes{0};  // as set; the simulator's own are never too small
thread_local int device = 0;
Stream* of(cudaStream_t stream) { return reinterpret_cast<Stream*>(stream); }
Event* of(cudaEvent_t event) { return reinterpret_cast<Event*>(event); }
bool built_in(cudaStream_t stream) { return reinterpret_cast<uintptr_t>(stream) <= 2; }

cudaError_t make_stream(cudaStream_t* stream, unsigned flags, int priority) {
    if (!stream || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    *stream = reinterpret_cast<cudaStream_t>(new Stream{streams++ | (flags & cudaStreamNonBlocking ? NON_BLOCKING : 0), flags, priority});
    return cudaSuccess;
}

cudaError_t record(cudaEvent_t event, cudaStream_t stream) {
    if (!event) return cudaErrorInvalidResourceHandle;
    uint64_t number = of(event)->number;
    of(event)->recorded = true;
    if (capturing(stream)) return cudaSuccess;  // it stands for an order alone, and a recorded stream's work is in order
    Message(EVENT_RECORD).u64(number).u64(stream_number(stream)).send();
    return cudaSuccess;
}
}  // namespace

uint64_t stream_number(cudaStream_t stream) { return built_in(stream) ? launched_in() : of(stream)->number; }

}  // namespace warp

using namespace warp;

// ---------------------------------------------------------------- the device

API cudaError_t cudaGetDeviceCount(int* count) { ENTER("cudaGetDeviceCount"); *count = 1; return cudaSuccess; }
API cudaError_t cudaGetDevice(int* number) { ENTER("cudaGetDevice"); *number = device; return cudaSuccess; }
API cudaError_t cudaSetDevice(int number) { ENTER("cudaSetDevice"); RETURN(number == 0 ? cudaSuccess : cudaErrorInvalidDevice); }
API cudaError_t cudaInitDevice(int number, unsigned, unsigned) { ENTER("cudaInitDevice"); RETURN(number == 0 ? cudaSuccess : cudaErrorInvalidDevice); }
API cudaError_t cudaSetDeviceFlags(unsigned) { ENTER("cudaSetDeviceFlags"); return cudaSuccess; }
API cudaError_t cudaGetDeviceFlags(unsigned* flags) { ENTER("cudaGetDeviceFlags"); *flags = cudaDeviceMapHost; return cudaSuccess; }
API cudaError_t cudaSetValidDevices(int*, int) { ENTER("cudaSetValidDevices"); return cudaSuccess; }
API cudaError_t cudaChooseDevice(int* number, const cudaDeviceProp*) { ENTER("cudaChooseDevice"); *number = 0; return cudaSuccess; }

API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int number) {
    ENTER("cudaGetDeviceProperties");
    if (!p) RETURN(cudaErrorInvalidValue);
    if (number != 0) RETURN(cudaErrorInvalidDevice);
    *p = {};
    snprintf(p->name, sizeof p->name, "%s", device_name.c_str());
    size_t k = 0;
#define FILL(name) p->name = device_values[k++];
    DEVICE_PROPERTIES(FILL)
    // the fields until CUDA 12 lie where reserved ones are now: include/warp_earlier.h
    int clock = 0;
    cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, number);
    p->reserved[0] = clock, p->reserved[1] = 1;
    return cudaSuccess;
}
API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int number) {
    ENTER("cudaDeviceGetAttribute");
    if (!value) RETURN(cudaErrorInvalidValue);
    if (number != 0) RETURN(cudaErrorInvalidDevice);
    Answer found = Message(ATTRIBUTE).u64(attribute).ask();
    *value = found.u64();
    RETURN(found.u64() ? cudaSuccess : cudaErrorInvalidValue);
}
API cudaError_t cudaDeviceSynchronize() {
    ENTER("cudaDeviceSynchronize");
    RETURN(synchronize(0, 0));
}
API cudaError_t cudaDeviceReset() {
    connect();
    synchronize(0, 0);
    return Message(RESET).ask().error;
}
API cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
    ENTER("cudaDeviceSetLimit");
    if (limit == cudaLimitPrintfFifoSize) print_bytes = value;
    if (limit == cudaLimitPersistingL2CacheSize) persisting_bytes = value;
    if (limit == cudaLimitStackSize) RETURN(Message(STACK_LIMIT).u64(value).ask().error);
    if (limit == cudaLimitMallocHeapSize) RETURN(Message(HEAP_LIMIT).u64(value).ask().error);
    return cudaSuccess;
}
API cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
    ENTER("cudaDeviceGetLimit");
    Answer found = Message(HEAP_LIMIT).u64(0).ask();
    uint64_t heap = found.u64(), stack = found.u64(), fifo = found.u64();
    if (limit == cudaLimitMallocHeapSize) *value = heap;
    else if (limit == cudaLimitStackSize) *value = stack;
    else if (limit == cudaLimitPrintfFifoSize) *value = print_bytes ? print_bytes.load() : fifo;
    else if (limit == cudaLimitMaxL2FetchGranularity) *value = 128;
    else if (limit == cudaLimitPersistingL2CacheSize) *value = persisting_bytes;
    else if (limit == cudaLimitDevRuntimeSyncDepth) *value = 0;
    else if (limit == cudaLimitDevRuntimePendingLaunchCount) *value = 2048;
    else RETURN(cudaErrorUnsupportedLimit);
    return cudaSuccess;
}
API cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { ENTER("cudaDeviceSetCacheConfig"); return cudaSuccess; }
API cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* c) { ENTER("cudaDeviceGetCacheConfig"); *c = cudaFuncCachePreferNone; return cudaSuccess; }
API cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { ENTER("cudaDeviceSetSharedMemConfig"); return cudaSuccess; }
API cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* c) {
    ENTER("cudaDeviceGetSharedMemConfig");
    *c = cudaSharedMemBankSizeFourByte;
    return cudaSuccess;
}
API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    ENTER("cudaDeviceGetStreamPriorityRange");
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
}
API cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int number) {
    ENTER("cudaDeviceGetPCIBusId");
    if (number != 0) RETURN(cudaErrorInvalidDevice);
    snprintf(text, length, "0000:01:00.0");
    return cudaSuccess;
}
API cudaError_t cudaDeviceGetByPCIBusId(int* number, const char* text) {
    ENTER("cudaDeviceGetByPCIBusId");
    if (!number || !text || !strstr(text, "01:00")) RETURN(cudaErrorInvalidValue);
    *number = 0;
    return cudaSuccess;
}
API cudaError_t cudaDeviceGetTexture1DLinearMaxWidth(size_t* texels, const cudaChannelFormatDesc*, int) {
    ENTER("cudaDeviceGetTexture1DLinearMaxWidth");
    *texels = size_t(1) << 28;
    return cudaSuccess;
}
API cudaError_t cudaDriverGetVersion(int* version) { ENTER("cudaDriverGetVersion"); *version = CUDART_VERSION; return cudaSuccess; }
API cudaError_t cudaRuntimeGetVersion(int* version) { ENTER("cudaRuntimeGetVersion"); *version = CUDART_VERSION; return cudaSuccess; }
API cudaError_t cudaCtxResetPersistingL2Cache() { ENTER("cudaCtxResetPersistingL2Cache"); return cudaSuccess; }
API cudaError_t cudaProfilerStart() { ENTER("cudaProfilerStart"); return cudaSuccess; }
API cudaError_t cudaProfilerStop() { ENTER("cudaProfilerStop"); return cudaSuccess; }

// one device: nobody to be a peer of
API cudaError_t cudaDeviceCanAccessPeer(int* can, int a, int b) {
    ENTER("cudaDeviceCanAccessPeer");
    if (a != 0 || b != 0) RETURN(cudaErrorInvalidDevice);
    *can = 0;
    return cudaSuccess;
}
API cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { ENTER("cudaDeviceEnablePeerAccess"); RETURN(cudaErrorInvalidDevice); }
API cudaError_t cudaDeviceDisablePeerAccess(int) { ENTER("cudaDeviceDisablePeerAccess"); RETURN(cudaErrorInvalidDevice); }
API cudaError_t cudaDeviceGetP2PAttribute(int*, cudaDeviceP2PAttr, int, int) { ENTER("cudaDeviceGetP2PAttribute"); RETURN(cudaErrorInvalidDevice); }
API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) { ENTER("cudaIpcGetMemHandle"); RETURN(unsupported(kCall)); }
API cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) { ENTER("cudaIpcOpenMemHandle"); RETURN(unsupported(kCall)); }
API cudaError_t cudaIpcCloseMemHandle(void*) { ENTER("cudaIpcCloseMemHandle"); RETURN(unsupported(kCall)); }
API cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t) { ENTER("cudaIpcGetEventHandle"); RETURN(unsupported(kCall)); }
API cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) { ENTER("cudaIpcOpenEventHandle"); RETURN(unsupported(kCall)); }

// ---------------------------------------------------------------- streams

API cudaError_t cudaStreamCreate(cudaStream_t* stream) { ENTER("cudaStreamCreate"); RETURN(make_stream(stream, 0, 0)); }
API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    ENTER("cudaStreamCreateWithFlags");
    RETURN(make_stream(stream, flags, 0));
}
API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
    ENTER("cudaStreamCreateWithPriority");
    RETURN(make_stream(stream, flags, priority > 0 ? 0 : priority < -5 ? -5 : priority));
}
API cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    ENTER("cudaStreamDestroy");
    if (built_in(stream)) RETURN(cudaErrorInvalidResourceHandle);
    Message(STREAM_DESTROY).u64(of(stream)->number).send();
    delete of(stream);
    return cudaSuccess;
}
API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    ENTER("cudaStreamSynchronize");
    if (capturing(stream)) RETURN(cudaErrorStreamCaptureUnsupported);
    RETURN(synchronize(1, stream_number(stream)));
}
API cudaError_t cudaStreamQuery(cudaStream_t stream) {
    ENTER("cudaStreamQuery");
    RETURN(synchronize(1, stream_number(stream)));
}
API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    ENTER("cudaStreamWaitEvent");
    if (!event) RETURN(cudaErrorInvalidResourceHandle);
    uint64_t number = of(event)->number;
    if (capturing(stream)) return cudaSuccess;
    Message(STREAM_WAIT).u64(stream_number(stream)).u64(number).send();
    return cudaSuccess;
}
API cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
    ENTER("cudaStreamGetFlags");
    *flags = built_in(stream) ? 0 : of(stream)->flags;
    return cudaSuccess;
}
API cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
    ENTER("cudaStreamGetPriority");
    *priority = built_in(stream) ? 0 : of(stream)->priority;
    return cudaSuccess;
}
API cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* number) {
    ENTER("cudaStreamGetId");
    *number = stream_number(stream);
    return cudaSuccess;
}
API cudaError_t cudaStreamGetDevice(cudaStream_t, int* number) { ENTER("cudaStreamGetDevice"); *number = 0; return cudaSuccess; }
API cudaError_t cudaStreamSetAttribute(cudaStream_t, cudaLaunchAttributeID, const cudaLaunchAttributeValue*) {
    ENTER("cudaStreamSetAttribute");
    return cudaSuccess;
}

API cudaError_t cudaStreamGetAttribute(cudaStream_t, cudaLaunchAttributeID, cudaLaunchAttributeValue* value) {
    ENTER("cudaStreamGetAttribute");
    *value = {};
    return cudaSuccess;
}
API cudaError_t cudaStreamCopyAttributes(cudaStream_t, cudaStream_t) { ENTER("cudaStreamCopyAttributes"); return cudaSuccess; }
API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
    ENTER("cudaThreadExchangeStreamCaptureMode");
    static thread_local cudaStreamCaptureMode now = cudaStreamCaptureModeGlobal;
    std::swap(now, *mode);
    return cudaSuccess;
}

namespace {
/// Host functions of streams run one after the other in a thread of their own, when what was put in before is done.
cudaError_t host_function(cudaStream_t stream, std::function<void(cudaError_t)> work) {
    cudaError_t error = synchronize(1, stream_number(stream));
    std::thread([&] { work(error); }).join();
    return cudaSuccess;
}
}  // namespace

API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
    ENTER("cudaLaunchHostFunc");
    if (!function) RETURN(cudaErrorInvalidValue);
    auto work = [=] { return host_function(nullptr, [=](cudaError_t) { function(data); }); };
    if (capture(stream, work, cudaGraphNodeTypeHost, cudaHostNodeParams{function, data})) return cudaSuccess;
    RETURN(host_function(stream, [=](cudaError_t) { function(data); }));
}
API cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned) {
    ENTER("cudaStreamAddCallback");
    if (!callback) RETURN(cudaErrorInvalidValue);
    RETURN(host_function(stream, [=](cudaError_t error) { callback(stream, error, data); }));
}

// ---------------------------------------------------------------- events

API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    ENTER("cudaEventCreateWithFlags");
    if (!event) RETURN(cudaErrorInvalidValue);
    *event = reinterpret_cast<cudaEvent_t>(new Event{events++, flags, false});
    return cudaSuccess;
}
API cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
API cudaError_t cudaEventDestroy(cudaEvent_t event) {
    ENTER("cudaEventDestroy");
    if (!event) RETURN(cudaErrorInvalidResourceHandle);
    Message(EVENT_DESTROY).u64(of(event)->number).send();
    delete of(event);
    return cudaSuccess;
}
API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { ENTER("cudaEventRecord"); RETURN(record(event, stream)); }
API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
    ENTER("cudaEventRecordWithFlags");
    RETURN(record(event, stream));
}
API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    ENTER("cudaEventSynchronize");
    if (!event) RETURN(cudaErrorInvalidResourceHandle);
    RETURN(of(event)->recorded ? synchronize(2, of(event)->number) : cudaSuccess);
}
API cudaError_t cudaEventQuery(cudaEvent_t event) {
    ENTER("cudaEventQuery");
    if (!event) RETURN(cudaErrorInvalidResourceHandle);
    RETURN(of(event)->recorded ? synchronize(2, of(event)->number) : cudaSuccess);
}
API cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
    ENTER("cudaEventElapsedTime");
    if (!ms) RETURN(cudaErrorInvalidValue);
    if (!start || !end || !of(start)->recorded || !of(end)->recorded) RETURN(cudaErrorInvalidResourceHandle);
    if ((of(start)->flags | of(end)->flags) & cudaEventDisableTiming) RETURN(cudaErrorInvalidResourceHandle);
    Answer found = Message(ELAPSED).u64(of(start)->number).u64(of(end)->number).ask();
    *ms = static_cast<int64_t>(found.u64()) * 1e-6f;
    RETURN(found.error);
}
