// driver_arrays.cpp: the driver API for arrays, boxes of memory, textures and surfaces, by the runtime's own calls.
#include "modules.h"

using namespace warp;

namespace {

Array* array_of(CUarray a) { return reinterpret_cast<Array*>(a); }
cudaArray_t runtime(CUarray a) { return reinterpret_cast<cudaArray_t>(a); }

/// What the runtime calls a format with so many channels; no bits for one that there is no simulation of.
cudaChannelFormatDesc channels_of(CUarray_format format, unsigned channels) {
    int bits = 0;
    cudaChannelFormatKind kind = cudaChannelFormatKindUnsigned;
    switch (format) {
        case CU_AD_FORMAT_UNSIGNED_INT8: bits = 8; break;
        case CU_AD_FORMAT_UNSIGNED_INT16: bits = 16; break;
        case CU_AD_FORMAT_UNSIGNED_INT32: bits = 32; break;
        case CU_AD_FORMAT_SIGNED_INT8: bits = 8, kind = cudaChannelFormatKindSigned; break;
        case CU_AD_FORMAT_SIGNED_INT16: bits = 16, kind = cudaChannelFormatKindSigned; break;
        case CU_AD_FORMAT_SIGNED_INT32: bits = 32, kind = cudaChannelFormatKindSigned; break;
        case CU_AD_FORMAT_HALF: bits = 16, kind = cudaChannelFormatKindFloat; break;
        case CU_AD_FORMAT_FLOAT: bits = 32, kind = cudaChannelFormatKindFloat; break;
        default: break;
    }
    return {bits, channels > 1 ? bits : 0, channels > 2 ? bits : 0, channels > 3 ? bits : 0, kind};
}

CUarray_format format_of(const cudaChannelFormatDesc& f) {
    if (f.f == cudaChannelFormatKindFloat) return f.x == 16 ? CU_AD_FORMAT_HALF : CU_AD_FORMAT_FLOAT;
    bool has_sign = f.f == cudaChannelFormatKindSigned;
    if (f.x == 8) return has_sign ? CU_AD_FORMAT_SIGNED_INT8 : CU_AD_FORMAT_UNSIGNED_INT8;
    if (f.x == 16) return has_sign ? CU_AD_FORMAT_SIGNED_INT16 : CU_AD_FORMAT_UNSIGNED_INT16;
    return has_sign ? CU_AD_FORMAT_SIGNED_INT32 : CU_AD_FORMAT_UNSIGNED_INT32;
}

CUresult make(CUarray* array, CUarray_format format, unsigned channels, cudaExtent extent, unsigned flags, const char* call) {
    cudaChannelFormatDesc desc = channels_of(format, channels);
    if (!array || !desc.x) return array ? CUresult(unsupported(call)) : CUDA_ERROR_INVALID_VALUE;
    return as_driver(cudaMalloc3DArray(reinterpret_cast<cudaArray_t*>(array), &desc, extent, flags));  // flags have the same bits
}

/// One end of a copy: an array, the host's memory or the device's.
Geometry place(CUarray array, CUmemorytype type, const void* in_host, CUdeviceptr in_device, size_t pitch, size_t x, size_t y) {
    if (type == CU_MEMORYTYPE_ARRAY) {
        size_t row = array_of(array)->row_bytes;
        return {array_of(array)->address + y * row + x, row, row};
    }
    char* start = type == CU_MEMORYTYPE_HOST ? static_cast<char*>(const_cast<void*>(in_host)) : reinterpret_cast<char*>(in_device);
    return {start + y * pitch + x, pitch, pitch};
}

CUresult copy(const CUDA_MEMCPY2D* p, CUstream stream, bool blocking, const char* call) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    Geometry to = place(p->dstArray, p->dstMemoryType, p->dstHost, p->dstDevice, p->dstPitch, p->dstXInBytes, p->dstY);
    Geometry from = place(p->srcArray, p->srcMemoryType, p->srcHost, p->srcDevice, p->srcPitch, p->srcXInBytes, p->srcY);
    connect();
    cudaError_t error = copy_box(to, from, p->WidthInBytes, p->Height, 1, cudaMemcpyDefault, reinterpret_cast<cudaStream_t>(stream), blocking, call);
    return as_driver(result(error, call));
}

/// The runtime's description of what a texture or a surface looks at.
cudaResourceDesc resource_of(const CUDA_RESOURCE_DESC& r) {
    cudaResourceDesc found = {};
    found.resType = static_cast<cudaResourceType>(r.resType);  // the same numbers
    if (r.resType == CU_RESOURCE_TYPE_ARRAY) found.res.array.array = runtime(r.res.array.hArray);
    if (r.resType == CU_RESOURCE_TYPE_LINEAR) {
        found.res.linear.devPtr = reinterpret_cast<void*>(r.res.linear.devPtr);
        found.res.linear.desc = channels_of(r.res.linear.format, r.res.linear.numChannels);
        found.res.linear.sizeInBytes = r.res.linear.sizeInBytes;
    }
    if (r.resType == CU_RESOURCE_TYPE_PITCH2D) {
        const auto& p = r.res.pitch2D;
        found.res.pitch2D.devPtr = reinterpret_cast<void*>(p.devPtr);
        found.res.pitch2D.desc = channels_of(p.format, p.numChannels);
        found.res.pitch2D.width = p.width, found.res.pitch2D.height = p.height, found.res.pitch2D.pitchInBytes = p.pitchInBytes;
    }
    return found;
}

cudaChannelFormatDesc texels_of(const cudaResourceDesc& r) {
    if (r.resType == cudaResourceTypeArray) return reinterpret_cast<Array*>(r.res.array.array)->format;
    return r.resType == cudaResourceTypeLinear ? r.res.linear.desc : r.res.pitch2D.desc;
}

}  // namespace

API CUresult cuArrayCreate(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* d) {
    if (!d) return CUDA_ERROR_INVALID_VALUE;
    return make(array, d->Format, d->NumChannels, {d->Width, d->Height, 0}, 0, "cuArrayCreate of this format");
}
API CUresult cuArray3DCreate(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* d) {
    if (!d) return CUDA_ERROR_INVALID_VALUE;
    return make(array, d->Format, d->NumChannels, {d->Width, d->Height, d->Depth}, d->Flags, "cuArray3DCreate of this format");
}
API CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR* d, CUarray array) {
    if (!d || !array) return CUDA_ERROR_INVALID_VALUE;
    const Array* a = array_of(array);
    unsigned channels = (a->format.x > 0) + (a->format.y > 0) + (a->format.z > 0) + (a->format.w > 0);
    *d = {a->width, a->height, format_of(a->format), channels};
    return CUDA_SUCCESS;
}
API CUresult cuArrayDestroy(CUarray array) { return as_driver(cudaFreeArray(runtime(array))); }

API CUresult cuMemcpy2D(const CUDA_MEMCPY2D* p) { return copy(p, nullptr, true, "cuMemcpy2D"); }
API CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* p) { return copy(p, nullptr, true, "cuMemcpy2DUnaligned"); }
API CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* p, CUstream stream) { return copy(p, stream, false, "cuMemcpy2DAsync"); }

API CUresult cuTexObjectCreate(CUtexObject* object, const CUDA_RESOURCE_DESC* resource, const CUDA_TEXTURE_DESC* texture,
                               const CUDA_RESOURCE_VIEW_DESC*) {
    if (!object || !resource || !texture) return CUDA_ERROR_INVALID_VALUE;
    cudaResourceDesc r = resource_of(*resource);
    cudaTextureDesc t = {};
    for (int k = 0; k < 3; k++) t.addressMode[k] = static_cast<cudaTextureAddressMode>(texture->addressMode[k]);
    for (int k = 0; k < 4; k++) t.borderColor[k] = texture->borderColor[k];
    t.filterMode = static_cast<cudaTextureFilterMode>(texture->filterMode);
    t.normalizedCoords = !!(texture->flags & CU_TRSF_NORMALIZED_COORDINATES);
    t.sRGB = !!(texture->flags & CU_TRSF_SRGB);
    cudaChannelFormatDesc texels = r.resType == cudaResourceTypeMipmappedArray ? cudaChannelFormatDesc{} : texels_of(r);
    bool whole = texels.f == cudaChannelFormatKindFloat || texels.x == 32 || (texture->flags & CU_TRSF_READ_AS_INTEGER);
    t.readMode = whole ? cudaReadModeElementType : cudaReadModeNormalizedFloat;
    return as_driver(cudaCreateTextureObject(object, &r, &t, nullptr));
}
API CUresult cuTexObjectDestroy(CUtexObject object) { return as_driver(cudaDestroyTextureObject(object)); }
API CUresult cuSurfObjectCreate(CUsurfObject* object, const CUDA_RESOURCE_DESC* resource) {
    if (!resource) return CUDA_ERROR_INVALID_VALUE;
    cudaResourceDesc r = resource_of(*resource);
    return as_driver(cudaCreateSurfaceObject(object, &r));
}
API CUresult cuSurfObjectDestroy(CUsurfObject object) { return as_driver(cudaDestroySurfaceObject(object)); }
