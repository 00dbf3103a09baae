// nvToolsExt.h: NVTX's marks and ranges, which nobody reads here. Found where NVIDIA's is not installed.
#pragma once
#include <stdint.h>

#define NVTX_VERSION 3
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE ((uint16_t)sizeof(nvtxEventAttributes_t))
typedef uint64_t nvtxRangeId_t;
typedef struct nvtxDomainRegistration* nvtxDomainHandle_t;
typedef struct nvtxStringRegistration* nvtxStringHandle_t;
typedef enum { NVTX_COLOR_UNKNOWN = 0, NVTX_COLOR_ARGB = 1 } nvtxColorType_t;
typedef enum {
    NVTX_MESSAGE_UNKNOWN = 0, NVTX_MESSAGE_TYPE_ASCII = 1, NVTX_MESSAGE_TYPE_UNICODE = 2, NVTX_MESSAGE_TYPE_REGISTERED = 3
} nvtxMessageType_t;
typedef enum {
    NVTX_PAYLOAD_UNKNOWN = 0, NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 = 1, NVTX_PAYLOAD_TYPE_INT64 = 2, NVTX_PAYLOAD_TYPE_DOUBLE = 3,
    NVTX_PAYLOAD_TYPE_UNSIGNED_INT32 = 4, NVTX_PAYLOAD_TYPE_INT32 = 5, NVTX_PAYLOAD_TYPE_FLOAT = 6
} nvtxPayloadType_t;
typedef union { const char* ascii; const wchar_t* unicode; nvtxStringHandle_t registered; } nvtxMessageValue_t;
typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t colorType;
    uint32_t color;
    int32_t payloadType, reserved0;
    union { uint64_t ullValue; int64_t llValue; double dValue; uint32_t uiValue; int32_t iValue; float fValue; } payload;
    int32_t messageType;
    nvtxMessageValue_t message;
} nvtxEventAttributes_t;

static inline void nvtxInitialize(const void* reserved) { (void)reserved; }
static inline void nvtxMarkA(const char* text) { (void)text; }
static inline void nvtxMarkW(const wchar_t* text) { (void)text; }
static inline void nvtxMarkEx(const nvtxEventAttributes_t* event) { (void)event; }
static inline int nvtxRangePushA(const char* text) { (void)text; return 0; }
static inline int nvtxRangePushW(const wchar_t* text) { (void)text; return 0; }
static inline int nvtxRangePushEx(const nvtxEventAttributes_t* event) { (void)event; return 0; }
static inline int nvtxRangePop(void) { return 0; }
static inline nvtxRangeId_t nvtxRangeStartA(const char* text) { (void)text; return 0; }
static inline nvtxRangeId_t nvtxRangeStartEx(const nvtxEventAttributes_t* event) { (void)event; return 0; }
static inline void nvtxRangeEnd(nvtxRangeId_t range) { (void)range; }
static inline void nvtxNameOsThreadA(uint32_t thread, const char* text) { (void)thread, (void)text; }
static inline void nvtxNameCategoryA(uint32_t category, const char* text) { (void)category, (void)text; }
static inline nvtxDomainHandle_t nvtxDomainCreateA(const char* text) { (void)text; return 0; }
static inline void nvtxDomainDestroy(nvtxDomainHandle_t domain) { (void)domain; }
static inline int nvtxDomainRangePushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) { (void)domain, (void)event; return 0; }
static inline int nvtxDomainRangePop(nvtxDomainHandle_t domain) { (void)domain; return 0; }
#define nvtxMark nvtxMarkA
#define nvtxRangePush nvtxRangePushA
#define nvtxRangeStart nvtxRangeStartA
#define nvtxNameOsThread nvtxNameOsThreadA
#define nvtxNameCategory nvtxNameCategoryA
#define nvtxDomainCreate nvtxDomainCreateA
