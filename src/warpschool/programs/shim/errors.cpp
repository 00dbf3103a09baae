// errors.cpp: the errors' names and sentences.
#include "channel.h"

#define ERRORS(error) \
    error(cudaSuccess, "no error") \
    error(cudaErrorInvalidValue, "invalid argument") \
    error(cudaErrorMemoryAllocation, "out of memory") \
    error(cudaErrorInitializationError, "initialization error") \
    error(cudaErrorCudartUnloading, "driver shutting down") \
    error(cudaErrorInvalidConfiguration, "invalid configuration argument") \
    error(cudaErrorInvalidPitchValue, "invalid pitch argument") \
    error(cudaErrorInvalidSymbol, "invalid device symbol") \
    error(cudaErrorInvalidHostPointer, "invalid host pointer") \
    error(cudaErrorInvalidDevicePointer, "invalid device pointer") \
    error(cudaErrorInvalidTexture, "invalid texture reference") \
    error(cudaErrorInvalidTextureBinding, "texture is not bound to a pointer") \
    error(cudaErrorInvalidChannelDescriptor, "invalid channel descriptor") \
    error(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy") \
    error(cudaErrorInvalidFilterSetting, "filter setting for texture requires floating point elements") \
    error(cudaErrorInvalidNormSetting, "texture element read mode cannot be normalized") \
    error(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version") \
    error(cudaErrorMissingConfiguration, "__global__ function call is not configured") \
    error(cudaErrorInvalidDeviceFunction, "invalid device function") \
    error(cudaErrorNoDevice, "no CUDA-capable device is detected") \
    error(cudaErrorInvalidDevice, "invalid device ordinal") \
    error(cudaErrorInvalidKernelImage, "device kernel image is invalid") \
    error(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device") \
    error(cudaErrorInvalidSource, "device kernel image is invalid") \
    error(cudaErrorInvalidPtx, "a PTX JIT compilation failed") \
    error(cudaErrorInvalidResourceHandle, "invalid resource handle") \
    error(cudaErrorIllegalState, "the operation cannot be performed in the present state") \
    error(cudaErrorSymbolNotFound, "named symbol not found") \
    error(cudaErrorNotReady, "device not ready") \
    error(cudaErrorIllegalAddress, "an illegal memory access was encountered") \
    error(cudaErrorLaunchOutOfResources, "too many resources requested for launch") \
    error(cudaErrorLaunchTimeout, "the launch timed out and was terminated") \
    error(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled") \
    error(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled") \
    error(cudaErrorAssert, "device-side assert triggered") \
    error(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped") \
    error(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region") \
    error(cudaErrorHardwareStackError, "hardware stack error") \
    error(cudaErrorIllegalInstruction, "an illegal instruction was encountered") \
    error(cudaErrorMisalignedAddress, "misaligned address") \
    error(cudaErrorInvalidAddressSpace, "operation not supported on global/shared address space") \
    error(cudaErrorInvalidPc, "invalid program counter") \
    error(cudaErrorLaunchFailure, "unspecified launch failure") \
    error(cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch") \
    error(cudaErrorNotPermitted, "operation not permitted") \
    error(cudaErrorNotSupported, "operation not supported") \
    error(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing") \
    error(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture") \
    error(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began") \
    error(cudaErrorGraphExecUpdateFailure, "the graph update was not performed: its nodes are not those of the executable graph") \
    error(cudaErrorOperatingSystem, "OS call failed or operation not supported on this OS") \
    error(cudaErrorFileNotFound, "file not found") \
    error(cudaErrorUnsupportedLimit, "limit is not supported on this architecture") \
    error(cudaErrorUnknown, "unknown error")

namespace warp {
/// The names of all others, which the build reads off CUDA's header; null for a number that is none.
const char* other_error(int error);
}

namespace {
/// Who asks what an error is called has noticed that there was one.
void seen(cudaError_t error) {
    warp::connect();
    if (error != cudaSuccess) warp::Message(ERROR_SEEN).send();
}
}  // namespace

API const char* cudaGetErrorName(cudaError_t error) {
    seen(error);
    switch (error) {
#define NAME(code, text) \
    case code: return #code;
        ERRORS(NAME)
        default: return warp::other_error(error) ? warp::other_error(error) : "unrecognized error code";
    }
}
API const char* cudaGetErrorString(cudaError_t error) {
    seen(error);
    switch (error) {
#define TEXT(code, text) \
    case code: return text;
        ERRORS(TEXT)
        default: return warp::other_error(error) ? warp::other_error(error) : "unrecognized error code";
    }
}
