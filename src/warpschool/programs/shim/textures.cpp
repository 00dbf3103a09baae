// textures.cpp: texture and surface objects.
#include <string.h>

#include <mutex>
#include <unordered_map>

#include "channel.h"

using namespace warp;

namespace {
std::mutex objects_mutex;
struct Description {
    cudaResourceDesc resource;
    cudaTextureDesc texture;
};
std::unordered_map<cudaTextureObject_t, Description> objects;

uint64_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}
}  // namespace

API cudaError_t cudaCreateTextureObject(cudaTextureObject_t* object, const cudaResourceDesc* resource, const cudaTextureDesc* texture,
                                        const cudaResourceViewDesc*) {
    ENTER("cudaCreateTextureObject");
    if (!object || !resource || !texture) RETURN(cudaErrorInvalidValue);
    if (texture->seamlessCubemap && texture->filterMode == cudaFilterModeLinear)
        RETURN(unsupported("cudaCreateTextureObject of a seamless cube map"));
    uint64_t place = 0, width = 0, height = 0, pitch = 0;
    cudaChannelFormatDesc format = {};
    switch (resource->resType) {
        case cudaResourceTypeArray: {
            Array* array = reinterpret_cast<Array*>(resource->res.array.array);
            if (!array) RETURN(cudaErrorInvalidValue);
            place = array->number, format = array->format;
            break;
        }
        case cudaResourceTypeLinear:
            place = reinterpret_cast<uint64_t>(resource->res.linear.devPtr), format = resource->res.linear.desc;
            width = resource->res.linear.sizeInBytes;
            break;
        case cudaResourceTypePitch2D:
            place = reinterpret_cast<uint64_t>(resource->res.pitch2D.devPtr), format = resource->res.pitch2D.desc;
            width = resource->res.pitch2D.width, height = resource->res.pitch2D.height, pitch = resource->res.pitch2D.pitchInBytes;
            break;
        default:
            RETURN(unsupported("cudaCreateTextureObject with a mipmapped array"));
    }
    uint64_t kind = resource->resType == cudaResourceTypeArray ? 0 : resource->resType == cudaResourceTypeLinear ? 2 : 3;
    int channels = (format.x > 0) + (format.y > 0) + (format.z > 0) + (format.w > 0);
    Answer found = Message(TEXTURE).u64(kind).u64(place).u64(width).u64(height).u64(pitch).u64(format.x).u64(channels).u64(format.f)
                       .u64(texture->addressMode[0]).u64(texture->addressMode[1]).u64(texture->addressMode[2])
                       .u64(texture->filterMode).u64(texture->readMode).u64(!!texture->normalizedCoords)
                       .u64(bits_of(texture->borderColor[0])).u64(bits_of(texture->borderColor[1]))
                       .u64(bits_of(texture->borderColor[2])).u64(bits_of(texture->borderColor[3])).ask();
    if (found.error != cudaSuccess) RETURN(found.error);
    *object = found.u64();
    std::lock_guard<std::mutex> hold(objects_mutex);
    objects[*object] = {*resource, *texture};
    return cudaSuccess;
}

API cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) {
    ENTER("cudaDestroyTextureObject");
    {
        std::lock_guard<std::mutex> hold(objects_mutex);
        objects.erase(object);
    }
    RETURN(Message(UNBIND).u64(object).ask().error);
}

API cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* resource, cudaTextureObject_t object) {
    ENTER("cudaGetTextureObjectResourceDesc");
    std::lock_guard<std::mutex> hold(objects_mutex);
    auto found = objects.find(object);
    if (found == objects.end()) RETURN(cudaErrorInvalidValue);
    *resource = found->second.resource;
    return cudaSuccess;
}

API cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc* texture, cudaTextureObject_t object) {
    ENTER("cudaGetTextureObjectTextureDesc");
    std::lock_guard<std::mutex> hold(objects_mutex);
    auto found = objects.find(object);
    if (found == objects.end()) RETURN(cudaErrorInvalidValue);
    *texture = found->second.texture;
    return cudaSuccess;
}

API cudaError_t cudaGetTextureObjectResourceViewDesc(cudaResourceViewDesc*, cudaTextureObject_t) {
    ENTER("cudaGetTextureObjectResourceViewDesc");
    RETURN(cudaErrorInvalidValue);  // no texture here has a view of its own
}

API cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* object, const cudaResourceDesc* resource) {
    ENTER("cudaCreateSurfaceObject");
    if (!object || !resource || resource->resType != cudaResourceTypeArray) RETURN(cudaErrorInvalidValue);
    Answer found = Message(SURFACE).u64(reinterpret_cast<Array*>(resource->res.array.array)->number).ask();
    *object = found.u64();
    RETURN(found.error);
}

API cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) {
    ENTER("cudaDestroySurfaceObject");
    RETURN(Message(UNBIND).u64(object).ask().error);
}
