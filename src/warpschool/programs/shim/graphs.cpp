// graphs.cpp: work that is recorded first and runs when its graph is launched.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string.h>
#include <unordered_map>

#include "modules.h"

namespace warp {
namespace {

struct Graph;
struct Node {
    cudaGraphNodeType type;
    std::function<cudaError_t()> work;
    std::vector<Node*> after;  // what it depends on
    Graph* graph = nullptr;
};
struct Graph {
    std::vector<std::unique_ptr<Node>> nodes;
};
struct Executable {
    std::vector<std::function<cudaError_t()>> work;  // in an order that its graph allows
};

std::mutex captures_mutex;
std::unordered_map<uint64_t, Graph*> captures;  // by stream
std::atomic<int> recording{0};
thread_local bool replaying = false;

Node* add(Graph* graph, cudaGraphNodeType type, std::function<cudaError_t()> work, const cudaGraphNode_t* after, size_t count) {
    Node* node = new Node{type, std::move(work), {}, graph};
    for (size_t k = 0; k < count; k++) node->after.push_back(reinterpret_cast<Node*>(after[k]));
    graph->nodes.emplace_back(node);
    return node;
}

/// The nodes so that each follows what it depends on; of several the one that was added first. Empty where they go in a circle.
std::vector<Node*> in_order(const Graph& graph) {
    std::vector<Node*> found;
    size_t before = ~size_t(0);
    while (found.size() < graph.nodes.size() && found.size() != before) {
        before = found.size();
        for (auto& node : graph.nodes) {
            auto done = [&](Node* n) { return std::find(found.begin(), found.end(), n) != found.end(); };
            if (!done(node.get()) && std::all_of(node->after.begin(), node->after.end(), done)) found.push_back(node.get());
        }
    }
    return found.size() == graph.nodes.size() ? found : std::vector<Node*>();
}

cudaError_t instantiate(cudaGraphExec_t* executable, cudaGraph_t graph) {
    Graph* g = reinterpret_cast<Graph*>(graph);
    if (!executable || !g) return cudaErrorInvalidValue;
    std::vector<Node*> order = in_order(*g);
    if (order.empty() && !g->nodes.empty()) return cudaErrorInvalidValue;
    Executable* made = new Executable;
    for (Node* node : order) made->work.push_back(node->work);
    *executable = reinterpret_cast<cudaGraphExec_t>(made);
    return cudaSuccess;
}

}  // namespace

bool capturing(cudaStream_t stream) {
    if (!recording || replaying) return false;
    std::lock_guard<std::mutex> hold(captures_mutex);
    return captures.count(stream_number(stream));
}

bool capture(cudaStream_t stream, std::function<cudaError_t()> work) {
    if (!recording || replaying) return false;
    std::lock_guard<std::mutex> hold(captures_mutex);
    auto found = captures.find(stream_number(stream));
    if (found == captures.end()) {
        if (captures.empty() || !stream) return false;
        found = captures.begin();  // a stream that waits for an event of the recorded one belongs to it
    }
    Graph* graph = found->second;
    Node* last = graph->nodes.empty() ? nullptr : graph->nodes.back().get();
    Node* node = add(graph, cudaGraphNodeTypeKernel, std::move(work), nullptr, 0);
    if (last) node->after.push_back(last);
    return true;
}

}  // namespace warp

using namespace warp;

API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    ENTER("cudaStreamBeginCapture");
    std::lock_guard<std::mutex> hold(captures_mutex);
    if (!stream || captures.count(stream_number(stream))) RETURN(cudaErrorIllegalState);
    captures[stream_number(stream)] = new Graph;
    recording++;
    return cudaSuccess;
}
API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    ENTER("cudaStreamEndCapture");
    std::lock_guard<std::mutex> hold(captures_mutex);
    auto found = captures.find(stream_number(stream));
    if (found == captures.end()) RETURN(cudaErrorIllegalState);
    *graph = reinterpret_cast<cudaGraph_t>(found->second);
    captures.erase(found);
    recording--;
    return cudaSuccess;
}
API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    ENTER("cudaStreamIsCapturing");
    *status = capturing(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
API cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
    ENTER("cudaGraphCreate");
    *graph = reinterpret_cast<cudaGraph_t>(new Graph);
    return cudaSuccess;
}
API cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    ENTER("cudaGraphDestroy");
    delete reinterpret_cast<Graph*>(graph);
    return cudaSuccess;
}
API cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
    ENTER("cudaGraphInstantiate");
    RETURN(instantiate(executable, graph));
}
API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
    ENTER("cudaGraphInstantiateWithFlags");
    RETURN(instantiate(executable, graph));
}
API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    ENTER("cudaGraphExecDestroy");
    delete reinterpret_cast<Executable*>(executable);
    return cudaSuccess;
}
API cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { ENTER("cudaGraphUpload"); return cudaSuccess; }
API cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t) {
    ENTER("cudaGraphLaunch");
    if (!executable) RETURN(cudaErrorInvalidValue);
    replaying = true;
    cudaError_t error = cudaSuccess;
    for (auto& work : reinterpret_cast<Executable*>(executable)->work)
        if (error == cudaSuccess) error = work();
    replaying = false;
    RETURN(error);
}
API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
    ENTER("cudaGraphGetNodes");
    auto& all = reinterpret_cast<Graph*>(graph)->nodes;
    if (nodes)
        for (size_t k = 0; k < std::min(*count, all.size()); k++) nodes[k] = reinterpret_cast<cudaGraphNode_t>(all[k].get());
    *count = all.size();
    return cudaSuccess;
}
API cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
    ENTER("cudaGraphNodeGetType");
    *type = reinterpret_cast<Node*>(node)->type;
    return cudaSuccess;
}
API cudaError_t cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t* from, const cudaGraphNode_t* to, const cudaGraphEdgeData*,
                                         size_t count) {
    ENTER("cudaGraphAddDependencies");
    for (size_t k = 0; k < count; k++) reinterpret_cast<Node*>(to[k])->after.push_back(reinterpret_cast<Node*>(from[k]));
    return cudaSuccess;
}

namespace {
cudaError_t add_to(cudaGraphNode_t* node, cudaGraph_t graph, cudaGraphNodeType type, std::function<cudaError_t()> work,
                   const cudaGraphNode_t* after, size_t count) {
    if (!node || !graph) return cudaErrorInvalidValue;
    *node = reinterpret_cast<cudaGraphNode_t>(add(reinterpret_cast<Graph*>(graph), type, std::move(work), after, count));
    return cudaSuccess;
}
}  // namespace

API cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count) {
    ENTER("cudaGraphAddEmptyNode");
    RETURN(add_to(node, graph, cudaGraphNodeTypeEmpty, [] { return cudaSuccess; }, after, count));
}
API cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                     const cudaHostNodeParams* p) {
    ENTER("cudaGraphAddHostNode");
    cudaHostNodeParams host = *p;
    RETURN(add_to(node, graph, cudaGraphNodeTypeHost, [=] { return cudaLaunchHostFunc(nullptr, host.fn, host.userData); }, after, count));
}
API cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                       const cudaMemcpy3DParms* p) {
    ENTER("cudaGraphAddMemcpyNode");
    cudaMemcpy3DParms parameters = *p;
    RETURN(add_to(node, graph, cudaGraphNodeTypeMemcpy, [=] { return cudaMemcpy3DAsync(&parameters, nullptr); }, after, count));
}
API cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, void* to,
                                         const void* from, size_t bytes, cudaMemcpyKind kind) {
    ENTER("cudaGraphAddMemcpyNode1D");
    RETURN(add_to(node, graph, cudaGraphNodeTypeMemcpy, [=] { return cudaMemcpyAsync(to, from, bytes, kind, nullptr); }, after, count));
}
API cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                       const cudaMemsetParams* p) {
    ENTER("cudaGraphAddMemsetNode");
    cudaMemsetParams m = *p;
    if (m.elementSize != 1 && m.value) RETURN(unsupported(kCall));
    RETURN(add_to(node, graph, cudaGraphNodeTypeMemset,
                  [=] { return cudaMemset2DAsync(m.dst, m.pitch ? m.pitch : m.width * m.elementSize, m.value, m.width * m.elementSize,
                                                 m.height ? m.height : 1, nullptr); },
                  after, count));
}
API cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                       const cudaKernelNodeParams* p) {
    ENTER("cudaGraphAddKernelNode");
    Kernel* k = kernel(p->func);
    if (!k) RETURN(cudaErrorInvalidDeviceFunction);
    cudaError_t error = ask(k);
    if (error != cudaSuccess) RETURN(error);
    auto copies = std::make_shared<std::vector<std::vector<char>>>();  // arguments are taken now
    for (size_t n = 0; n < k->parameters.size(); n++) {
        const char* at = static_cast<const char*>(p->kernelParams[n]);
        copies->emplace_back(at, at + k->parameters[n].bytes);
    }
    dim3 grid = p->gridDim, block = p->blockDim;
    size_t shared = p->sharedMemBytes;
    RETURN(add_to(node, graph, cudaGraphNodeTypeKernel,
                  [=] {
                      std::vector<const void*> arguments;
                      for (auto& one : *copies) arguments.push_back(one.data());
                      return launch(k, grid, block, arguments.data(), shared, nullptr, dim3(0, 0, 0), false, "cudaGraphLaunch");
                  },
                  after, count));
}
