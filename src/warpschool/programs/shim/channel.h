// channel.h: the program's side of the line to the simulator, and the memory that both see.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <variant>
#include <vector>

#include "wire.h"

#define API extern "C" __attribute__((visibility("default")))

namespace warp {

constexpr int kCallers = 12;  // frames of the host's stack that a request carries

/// Where the device's memory lies for the program (`base`, not readable but where host memory is), and where this library reads it.
struct Arena {
    char* base = nullptr;
    size_t capacity = 0;
    char* alias = nullptr;
    bool holds(const void* p) const { return p >= base && p < base + capacity; }
    /// The same byte, where this library may touch it.
    char* reach(const void* p) const {
        char* at = static_cast<char*>(const_cast<void*>(p));
        return holds(p) ? alias + (at - base) : at;
    }
};
extern Arena arena;

/// The answer to a request.
class Answer {
  public:
    cudaError_t error = cudaSuccess;
    uint64_t u64();
    std::vector<char> data;
    size_t at = 0;
};

/// A request in the making. `send` waits for nothing, `ask` for the answer, by which all earlier requests are done.
class Message {
  public:
    explicit Message(Request request);
    Message& u64(uint64_t value);
    Message& address(const void* p) { return u64(reinterpret_cast<uint64_t>(p)); }
    Message& bytes(const void* data, size_t size);
    Message& text(const char* s);
    /// The host's stack, innermost first; who reads it leaves out the frames of this library.
    Message& callers();
    void send();
    Answer ask();

  private:
    std::vector<char>& buffer_;
};

/// Starts the line if it is not there yet. Every entry point of the API begins with it.
void connect();
/// Waits until all work is done, lets the program at managed memory again, and gives the device's error, if it has one.
/// `asked`: by the program itself, and not by another call that waits.
cudaError_t synchronize(uint64_t what, uint64_t stream, bool asked = true);
/// What every call returns: notes the error as the thread's last one, and tells the simulator of it.
cudaError_t result(cudaError_t error, const char* call);
/// The error that no call survives, or cudaSuccess.
cudaError_t fatal();
void set_fatal(cudaError_t error);
/// A launch that failed before it began: only cudaGetLastError tells the program.
void set_last(cudaError_t error);
/// For a call that there is no simulation of.
cudaError_t unsupported(const char* call);

/// Managed memory: the program may not touch it while a kernel may run.
void managed_add(void* start, size_t bytes);
void managed_remove(void* start);
void managed_lock();
void managed_unlock();
void host_access(void* start, size_t bytes, bool allowed);

uint64_t stream_number(cudaStream_t stream);
/// What the default stream stands for in the work of a graph: the stream that the graph was launched in. 0 elsewhere.
uint64_t launched_in();
/// What recorded work is made of, for a program that asks a node.
using MadeOf = std::variant<std::monostate, cudaMemcpy3DParms, cudaMemsetParams, cudaHostNodeParams>;
/// Puts work into the graph that is recorded from this stream, if one is; whether it did.
bool capture(cudaStream_t stream, std::function<cudaError_t()> work, cudaGraphNodeType type, const MadeOf& made_of = {});
/// The same with a launch, whose arguments are taken now.
bool capture_launch(cudaStream_t stream, const cudaKernelNodeParams& parameters, dim3 cluster, bool cooperative);
/// Memory that work being recorded needs: the graph's from now on.
void capture_memory(cudaStream_t stream, void* p, size_t bytes);
/// An address that a graph's launches allocate at: `begin` and `end` say that it is there, and no longer; `end` returns false for all other
/// memory, and `drop`, when the graph is gone, whether something is still there.
void graph_memory_add(void* p, size_t bytes);
cudaError_t graph_memory_begin(void* p);
bool graph_memory_end(void* p, cudaError_t* error);
bool graph_memory_drop(void* p);
/// The program ends: what graphs that it never destroyed have freed is no leak.
void graph_memory_close();
bool capturing(cudaStream_t stream);

struct Array {
    uint64_t number;
    char* address;
    size_t row_bytes, width, height, depth, texel_bytes;
    cudaChannelFormatDesc format;
    unsigned flags;
};

struct Geometry {
    char* start;
    size_t row_bytes, slice_bytes;
};
/// A box of bytes from one place to another. `call` is what errors name.
cudaError_t copy_box(Geometry to, Geometry from, size_t width, size_t height, size_t depth, cudaMemcpyKind kind, cudaStream_t stream,
                     bool blocking, const char* call);

}  // namespace warp

/// The frame of every entry point: connected, and alive.
#define ENTER(name)                            \
    static const char* const kCall = name;     \
    warp::connect();                           \
    if (warp::fatal() != cudaSuccess) return warp::result(warp::fatal(), kCall)
#define RETURN(error) return warp::result(error, kCall)
