// graph_memory.cpp: what graphs allocate. A piece has one address in all launches; it is there from the node that allocates it until
// a node, another graph or the program itself frees it.
#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "channel.h"

using namespace warp;

namespace {
struct Piece {
    size_t bytes;
    bool live = false;
};
std::mutex pieces_mutex;
std::unordered_map<void*, Piece> pieces;
size_t used = 0, held = 0, most_held = 0;  // by live pieces; of graphs, who keep what they have freed; and how much that ever was

void set_live(Piece& piece, bool live) {
    piece.live = live;
    used = live ? used + piece.bytes : used - piece.bytes;
    held = std::max(held, used), most_held = std::max(most_held, held);
}
}  // namespace

namespace warp {

void graph_memory_add(void* p, size_t bytes) {
    std::lock_guard<std::mutex> hold(pieces_mutex);
    pieces[p] = {bytes};
}

cudaError_t graph_memory_begin(void* p) {
    std::lock_guard<std::mutex> hold(pieces_mutex);
    auto found = pieces.find(p);
    if (found == pieces.end() || found->second.live) return cudaErrorInvalidValue;
    set_live(found->second, true);
    return cudaSuccess;
}

bool graph_memory_end(void* p, cudaError_t* error) {
    std::lock_guard<std::mutex> hold(pieces_mutex);
    auto found = pieces.find(p);
    if (found == pieces.end()) return false;
    *error = found->second.live ? cudaSuccess : cudaErrorInvalidValue;
    if (found->second.live) set_live(found->second, false);
    return true;
}

bool graph_memory_drop(void* p) {
    std::lock_guard<std::mutex> hold(pieces_mutex);
    auto found = pieces.find(p);
    bool live = found != pieces.end() && found->second.live;
    if (live) set_live(found->second, false);
    pieces.erase(p);
    return live;
}

void graph_memory_close() {
    std::vector<void*> rest;
    {
        std::lock_guard<std::mutex> hold(pieces_mutex);
        for (auto& [p, piece] : pieces)
            if (!piece.live) rest.push_back(p);
        for (void* p : rest) pieces.erase(p);
    }
    for (void* p : rest) cudaFree(p);
}

}  // namespace warp

API cudaError_t cudaDeviceGraphMemTrim(int) {
    ENTER("cudaDeviceGraphMemTrim");
    std::lock_guard<std::mutex> hold(pieces_mutex);
    held = used;
    return cudaSuccess;
}
API cudaError_t cudaDeviceGetGraphMemAttribute(int, cudaGraphMemAttributeType what, void* value) {
    ENTER("cudaDeviceGetGraphMemAttribute");
    std::lock_guard<std::mutex> hold(pieces_mutex);
    if (!value || what > cudaGraphMemAttrReservedMemHigh) RETURN(cudaErrorInvalidValue);
    bool now = what == cudaGraphMemAttrUsedMemCurrent || what == cudaGraphMemAttrReservedMemCurrent;
    *static_cast<uint64_t*>(value) = now ? held : most_held;
    return cudaSuccess;
}
API cudaError_t cudaDeviceSetGraphMemAttribute(int, cudaGraphMemAttributeType what, void* value) {
    ENTER("cudaDeviceSetGraphMemAttribute");
    std::lock_guard<std::mutex> hold(pieces_mutex);
    bool mark = what == cudaGraphMemAttrUsedMemHigh || what == cudaGraphMemAttrReservedMemHigh;
    if (!value || !mark || *static_cast<uint64_t*>(value)) RETURN(cudaErrorInvalidValue);  // the marks may begin anew, and that is all
    most_held = held;
    return cudaSuccess;
}
