// graphs.cpp: work that is recorded first and runs when its graph is launched.
#include <string.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <unordered_map>
#include <variant>

#include "modules.h"

namespace warp {
namespace {

using Work = std::function<cudaError_t()>;

struct Graph;
/// A kernel's arguments are taken when they are given; `parameters` points to the copies. The shape of clusters and whether blocks may wait
/// for each other stay as they are when other parameters come.
struct KernelWork {
    cudaKernelNodeParams parameters = {};
    dim3 cluster = dim3(0, 0, 0);
    bool cooperative = false;
    std::vector<std::vector<char>> copies;
    std::vector<void*> pointers;
};
using Asked = std::variant<std::monostate, std::shared_ptr<KernelWork>, cudaMemcpy3DParms, cudaMemsetParams, cudaHostNodeParams,
                           cudaMemAllocNodeParams, void*, cudaEvent_t, Graph*>;
struct Node {
    cudaGraphNodeType type;
    Work work;
    std::vector<Node*> after;  // what it depends on
    Graph* graph = nullptr;
    Asked asked = {};  // what it was made of, where somebody may ask
};
/// The addresses of what a graph allocates: they are its own as long as it lives, or something made of it. What is still there then is
/// the program's to free, as other memory is.
struct GraphMemory {
    std::vector<void*> pieces;
    ~GraphMemory() {
        for (void* p : pieces)
            if (!graph_memory_drop(p)) cudaFree(p);
    }
};
struct Graph {
    std::vector<std::unique_ptr<Node>> nodes;
    std::shared_ptr<GraphMemory> memory = std::make_shared<GraphMemory>();
};
struct Step {
    const Node* node;  // by which it is asked for: the graph itself may be gone
    cudaGraphNodeType type;
    Work work;
    Asked asked;
    bool enabled = true;
};
struct Executable {
    std::vector<Step> steps;  // in an order that its graph allows
    std::vector<std::shared_ptr<GraphMemory>> memory;
    unsigned long long flags = 0;
};

std::mutex captures_mutex;
std::unordered_map<uint64_t, Graph*> captures;  // by stream
std::atomic<int> recording{0};
thread_local bool replaying = false;
thread_local uint64_t replayed_in = 0;

Graph* of(cudaGraph_t graph) { return reinterpret_cast<Graph*>(graph); }
Node* of(cudaGraphNode_t node) { return reinterpret_cast<Node*>(node); }
Executable* of(cudaGraphExec_t executable) { return reinterpret_cast<Executable*>(executable); }
cudaGraphNode_t handle(Node* node) { return reinterpret_cast<cudaGraphNode_t>(node); }

Node* add(Graph* graph, cudaGraphNodeType type, Work work, const cudaGraphNode_t* after, size_t count, Asked asked = {}) {
    Node* node = new Node{type, std::move(work), {}, graph, std::move(asked)};
    for (size_t k = 0; k < count; k++) node->after.push_back(of(after[k]));
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

/// The graph that a stream is recorded into; null where it is not. A stream that waits for an event of the recorded one belongs to it.
Graph* recorded(cudaStream_t stream) {
    auto found = captures.find(stream_number(stream));
    if (found != captures.end()) return found->second;
    return captures.empty() || !stream ? nullptr : captures.begin()->second;
}

/// The steps of a graph, those of the graphs in it between the others. Raises nothing: false where its nodes go in a circle.
bool steps_of(Graph* graph, Executable* into) {
    std::vector<Node*> order = in_order(*graph);
    if (order.empty() && !graph->nodes.empty()) return false;
    into->memory.push_back(graph->memory);
    for (Node* node : order) {
        into->steps.push_back({node, node->type, node->work, node->asked});
        if (Graph** child = std::get_if<Graph*>(&node->asked))
            if (!steps_of(*child, into)) return false;
    }
    return true;
}

cudaError_t instantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
    if (!executable || !graph) return cudaErrorInvalidValue;
    auto made = std::make_unique<Executable>();
    made->flags = flags;
    if (!steps_of(of(graph), made.get())) return cudaErrorInvalidValue;
    *executable = reinterpret_cast<cudaGraphExec_t>(made.release());
    return cudaSuccess;
}

// ---------------------------------------------------------------- what nodes do

cudaError_t kernel_work(const cudaKernelNodeParams* p, Work* work, Asked* asked) {
    if (!p) return cudaErrorInvalidValue;
    Kernel* k = kernel(p->func);
    if (!k) return cudaErrorInvalidDeviceFunction;
    cudaError_t error = ask(k);
    if (error != cudaSuccess) return error;
    if (!p->kernelParams && !k->parameters.empty()) return cudaErrorInvalidValue;
    auto made = std::make_shared<KernelWork>();
    if (auto* before = std::get_if<std::shared_ptr<KernelWork>>(asked)) made->cluster = (*before)->cluster, made->cooperative = (*before)->cooperative;
    made->parameters = *p;
    for (size_t n = 0; n < k->parameters.size(); n++) {
        const char* at = static_cast<const char*>(p->kernelParams[n]);
        made->copies.emplace_back(at, at + k->parameters[n].bytes);
    }
    for (auto& copy : made->copies) made->pointers.push_back(copy.data());
    made->parameters.kernelParams = made->pointers.data();
    *asked = made;
    *work = [=] {
        const cudaKernelNodeParams& q = made->parameters;
        std::vector<void*> arguments;  // not `pointers`: programs that ask for them change them
        for (auto& copy : made->copies) arguments.push_back(copy.data());
        return launch(k, q.gridDim, q.blockDim, arguments.data(), q.sharedMemBytes, nullptr, made->cluster, made->cooperative, "cudaGraphLaunch");
    };
    return cudaSuccess;
}

cudaError_t copy_work(const cudaMemcpy3DParms* p, Work* work, Asked* asked) {
    if (!p) return cudaErrorInvalidValue;
    cudaMemcpy3DParms parameters = *p;
    *asked = parameters;
    *work = [=] { return cudaMemcpy3DAsync(&parameters, nullptr); };
    return cudaSuccess;
}

cudaError_t set_work(const cudaMemsetParams* p, Work* work, Asked* asked) {
    if (!p) return cudaErrorInvalidValue;
    cudaMemsetParams m = *p;
    *asked = m;
    size_t row = m.pitch ? m.pitch : m.width * m.elementSize, rows = m.height ? m.height : 1;
    unsigned bytes[4] = {m.value & 255, m.value >> 8 & 255, m.value >> 16 & 255, m.value >> 24};
    bool alike = true;
    for (unsigned k = 1; k < m.elementSize; k++) alike = alike && bytes[k] == bytes[0];
    if (alike) {
        *work = [=] { return cudaMemset2DAsync(m.dst, row, bytes[0], m.width * m.elementSize, rows, nullptr); };
        return cudaSuccess;
    }
    auto line = std::make_shared<std::vector<char>>(m.width * m.elementSize);
    for (size_t k = 0; k < line->size(); k++) (*line)[k] = static_cast<char>(bytes[k % m.elementSize]);
    *work = [=] {
        cudaError_t error = cudaSuccess;
        for (size_t y = 0; y < rows && error == cudaSuccess; y++)
            error = cudaMemcpyAsync(static_cast<char*>(m.dst) + y * row, line->data(), line->size(), cudaMemcpyHostToDevice, nullptr);
        return error;
    };
    return cudaSuccess;
}

cudaError_t host_work(const cudaHostNodeParams* p, Work* work, Asked* asked) {
    if (!p || !p->fn) return cudaErrorInvalidValue;
    cudaHostNodeParams host = *p;
    *asked = host;
    *work = [=] { return cudaLaunchHostFunc(nullptr, host.fn, host.userData); };
    return cudaSuccess;
}

struct Line {
    void* to;
    const void* from;
    size_t bytes;
    cudaMemcpyKind kind;
};
cudaError_t line_work(const Line* p, Work* work, Asked* asked) {
    Line line = *p;
    cudaMemcpy3DParms parameters = {};
    parameters.srcPtr = {const_cast<void*>(line.from), line.bytes, line.bytes, 1}, parameters.dstPtr = {line.to, line.bytes, line.bytes, 1};
    parameters.extent = {line.bytes, 1, 1}, parameters.kind = line.kind;
    *asked = parameters;
    *work = [=] { return cudaMemcpyAsync(line.to, line.from, line.bytes, line.kind, nullptr); };
    return cudaSuccess;
}

/// A node of what `make` makes of parameters.
template <typename P>
cudaError_t add_made(cudaGraphNode_t* node, cudaGraph_t graph, cudaGraphNodeType type, const cudaGraphNode_t* after, size_t count, const P* p,
                     cudaError_t (*make)(const P*, Work*, Asked*)) {
    if (!node || !graph) return cudaErrorInvalidValue;
    Work work;
    Asked asked;
    cudaError_t error = make(p, &work, &asked);
    if (error == cudaSuccess) *node = handle(add(of(graph), type, std::move(work), after, count, std::move(asked)));
    return error;
}

cudaError_t add_plain(cudaGraphNode_t* node, cudaGraph_t graph, cudaGraphNodeType type, Work work, const cudaGraphNode_t* after, size_t count,
                      Asked asked = {}) {
    if (!node || !graph) return cudaErrorInvalidValue;
    *node = handle(add(of(graph), type, std::move(work), after, count, std::move(asked)));
    return cudaSuccess;
}

template <typename P>
cudaError_t node_set(cudaGraphNode_t node, const P* p, cudaError_t (*make)(const P*, Work*, Asked*)) {
    return node ? make(p, &of(node)->work, &of(node)->asked) : cudaErrorInvalidValue;
}

template <typename T>
cudaError_t node_get(cudaGraphNode_t node, T* p) {
    const T* found = node ? std::get_if<T>(&of(node)->asked) : nullptr;
    if (!found) return cudaErrorInvalidValue;
    *p = *found;
    return cudaSuccess;
}

Step* step_of(cudaGraphExec_t executable, cudaGraphNode_t node) {
    for (Step& step : of(executable)->steps)
        if (step.node == of(node)) return &step;
    return nullptr;
}

template <typename P>
cudaError_t step_set(cudaGraphExec_t executable, cudaGraphNode_t node, const P* p, cudaError_t (*make)(const P*, Work*, Asked*)) {
    Step* step = executable ? step_of(executable, node) : nullptr;
    return step ? make(p, &step->work, &step->asked) : cudaErrorInvalidValue;
}

cudaError_t list(const std::vector<Node*>& found, cudaGraphNode_t* nodes, size_t* count) {
    if (!count) return cudaErrorInvalidValue;
    if (nodes)
        for (size_t k = 0; k < std::min(*count, found.size()); k++) nodes[k] = handle(found[k]);
    *count = found.size();
    return cudaSuccess;
}

Graph* cloned(const Graph& graph) {
    Graph* made = new Graph;
    made->memory = graph.memory;
    std::unordered_map<const Node*, Node*> twins;
    for (auto& node : graph.nodes) {
        Node* twin = add(made, node->type, node->work, nullptr, 0, node->asked);
        twins[node.get()] = twin;
    }
    for (auto& node : graph.nodes)
        for (Node* before : node->after) twins[node.get()]->after.push_back(twins[before]);
    return made;
}

/// Puts work behind what is there already of the graph that is recorded from a stream, if one is; whether it did.
bool record(cudaStream_t stream, Work work, cudaGraphNodeType type, Asked asked) {
    if (!recording || replaying) return false;
    std::lock_guard<std::mutex> hold(captures_mutex);
    Graph* graph = recorded(stream);
    if (!graph) return false;
    Node* last = graph->nodes.empty() ? nullptr : graph->nodes.back().get();
    Node* node = add(graph, type, std::move(work), nullptr, 0, std::move(asked));
    if (last) node->after.push_back(last);
    return true;
}

}  // namespace

uint64_t launched_in() { return replayed_in; }

bool capturing(cudaStream_t stream) {
    if (!recording || replaying) return false;
    std::lock_guard<std::mutex> hold(captures_mutex);
    return recorded(stream) != nullptr;
}

bool capture(cudaStream_t stream, std::function<cudaError_t()> work, cudaGraphNodeType type, const MadeOf& made_of) {
    return record(stream, std::move(work), type, std::visit([](auto& parameters) { return Asked(parameters); }, made_of));
}

bool capture_launch(cudaStream_t stream, const cudaKernelNodeParams& parameters, dim3 cluster, bool cooperative) {
    if (!capturing(stream)) return false;
    auto made = std::make_shared<KernelWork>();
    made->cluster = cluster, made->cooperative = cooperative;
    Work work;
    Asked asked = made;
    return kernel_work(&parameters, &work, &asked) == cudaSuccess && record(stream, std::move(work), cudaGraphNodeTypeKernel, std::move(asked));
}

void capture_memory(cudaStream_t stream, void* p, size_t bytes) {
    graph_memory_add(p, bytes);
    {
        std::lock_guard<std::mutex> hold(captures_mutex);
        if (Graph* graph = recorded(stream)) graph->memory->pieces.push_back(p);
    }
    capture(stream, [=] { return graph_memory_begin(p); }, cudaGraphNodeTypeMemAlloc);
}

}  // namespace warp

using namespace warp;

// ---------------------------------------------------------------- recording

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
API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* number, cudaGraph_t* graph,
                                         const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges, size_t* count) {
    ENTER("cudaStreamGetCaptureInfo");
    static thread_local cudaGraphNode_t last;
    if (dependencies) *dependencies = nullptr;
    if (edges) *edges = nullptr;
    if (count) *count = 0;
    *status = capturing(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    if (*status == cudaStreamCaptureStatusNone) return cudaSuccess;
    std::lock_guard<std::mutex> hold(captures_mutex);
    Graph* found = recorded(stream);
    if (number) *number = reinterpret_cast<uint64_t>(found);
    if (graph) *graph = reinterpret_cast<cudaGraph_t>(found);
    if (dependencies && !found->nodes.empty()) {
        last = handle(found->nodes.back().get());
        *dependencies = &last;
        if (count) *count = 1;
    }
    return cudaSuccess;
}

// ---------------------------------------------------------------- graphs as a whole

API cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
    ENTER("cudaGraphCreate");
    *graph = reinterpret_cast<cudaGraph_t>(new Graph);
    return cudaSuccess;
}
API cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    ENTER("cudaGraphDestroy");
    delete of(graph);
    return cudaSuccess;
}
API cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
    ENTER("cudaGraphClone");
    if (!clone || !graph) RETURN(cudaErrorInvalidValue);
    *clone = reinterpret_cast<cudaGraph_t>(cloned(*of(graph)));
    return cudaSuccess;
}
API cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* node, cudaGraphNode_t original, cudaGraph_t clone) {
    ENTER("cudaGraphNodeFindInClone");
    auto& from = of(original)->graph->nodes;
    for (size_t k = 0; k < from.size() && k < of(clone)->nodes.size(); k++)
        if (from[k].get() == of(original)) return *node = handle(of(clone)->nodes[k].get()), cudaSuccess;
    RETURN(cudaErrorInvalidValue);
}
API cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
    ENTER("cudaGraphInstantiate");
    RETURN(instantiate(executable, graph, flags));
}
API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
    ENTER("cudaGraphInstantiateWithFlags");
    RETURN(instantiate(executable, graph, flags));
}
API cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* executable, cudaGraph_t graph, cudaGraphInstantiateParams* p) {
    ENTER("cudaGraphInstantiateWithParams");
    cudaError_t error = instantiate(executable, graph, p ? p->flags : 0);
    if (p) p->result_out = error == cudaSuccess ? cudaGraphInstantiateSuccess : cudaGraphInstantiateError, p->errNode_out = nullptr;
    RETURN(error);
}
API cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t executable, unsigned long long* flags) {
    ENTER("cudaGraphExecGetFlags");
    *flags = of(executable)->flags;
    return cudaSuccess;
}
API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    ENTER("cudaGraphExecDestroy");
    delete of(executable);
    return cudaSuccess;
}
API cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { ENTER("cudaGraphUpload"); return cudaSuccess; }
API cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    ENTER("cudaGraphLaunch");
    if (!executable) RETURN(cudaErrorInvalidValue);
    if (capturing(stream)) {  // a graph within a graph
        std::vector<Step> steps = of(executable)->steps;
        capture(stream, [steps] {
            cudaError_t error = cudaSuccess;
            for (auto& step : steps)
                if (error == cudaSuccess && step.enabled) error = step.work();
            return error;
        }, cudaGraphNodeTypeGraph);
        return cudaSuccess;
    }
    replayed_in = stream_number(stream);
    replaying = true;
    cudaError_t error = cudaSuccess;
    if (of(executable)->flags & cudaGraphInstantiateFlagAutoFreeOnLaunch)
        for (auto& memory : of(executable)->memory)
            for (void* p : memory->pieces) graph_memory_end(p, &error);
    error = cudaSuccess;  // what nobody has allocated yet needs no end
    for (auto& step : of(executable)->steps)
        if (error == cudaSuccess && step.enabled) error = step.work();
    replaying = false;
    replayed_in = 0;
    RETURN(error);
}
API cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info) {
    ENTER("cudaGraphExecUpdate");
    if (!executable || !graph) RETURN(cudaErrorInvalidValue);
    Executable fresh;
    auto& old = of(executable)->steps;
    bool alike = steps_of(of(graph), &fresh) && fresh.steps.size() == old.size();
    for (size_t k = 0; alike && k < old.size(); k++) alike = fresh.steps[k].type == old[k].type;
    if (info) *info = {}, info->result = alike ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
    if (!alike) RETURN(cudaErrorGraphExecUpdateFailure);
    for (size_t k = 0; k < old.size(); k++) old[k].work = fresh.steps[k].work, old[k].asked = fresh.steps[k].asked;
    of(executable)->memory.insert(of(executable)->memory.end(), fresh.memory.begin(), fresh.memory.end());
    return cudaSuccess;
}
API cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned) {
    ENTER("cudaGraphDebugDotPrint");
    FILE* file = fopen(path, "w");
    if (!file) RETURN(cudaErrorOperatingSystem);
    fprintf(file, "digraph graph_1 {\n");
    auto& nodes = of(graph)->nodes;
    for (size_t k = 0; k < nodes.size(); k++)
        for (Node* before : nodes[k]->after)
            for (size_t j = 0; j < nodes.size(); j++)
                if (nodes[j].get() == before) fprintf(file, "  node_%zu -> node_%zu;\n", j, k);
    fprintf(file, "}\n");
    fclose(file);
    return cudaSuccess;
}

// ---------------------------------------------------------------- nodes

API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
    ENTER("cudaGraphGetNodes");
    std::vector<Node*> all;
    for (auto& node : of(graph)->nodes) all.push_back(node.get());
    RETURN(list(all, nodes, count));
}
API cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
    ENTER("cudaGraphGetRootNodes");
    std::vector<Node*> found;
    for (auto& node : of(graph)->nodes)
        if (node->after.empty()) found.push_back(node.get());
    RETURN(list(found, nodes, count));
}
API cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData*, size_t* count) {
    ENTER("cudaGraphGetEdges");
    size_t known = 0;
    for (auto& node : of(graph)->nodes)
        for (Node* before : node->after) {
            if (from && to && known < *count) from[known] = handle(before), to[known] = handle(node.get());
            known++;
        }
    *count = known;
    return cudaSuccess;
}
API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData*, size_t* count) {
    ENTER("cudaGraphNodeGetDependencies");
    RETURN(list(of(node)->after, nodes, count));
}
API cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData*, size_t* count) {
    ENTER("cudaGraphNodeGetDependentNodes");
    std::vector<Node*> found;
    for (auto& other : of(node)->graph->nodes)
        if (std::count(other->after.begin(), other->after.end(), of(node))) found.push_back(other.get());
    RETURN(list(found, nodes, count));
}
API cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
    ENTER("cudaGraphNodeGetType");
    *type = of(node)->type;
    return cudaSuccess;
}
API cudaError_t cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t* from, const cudaGraphNode_t* to, const cudaGraphEdgeData*,
                                         size_t count) {
    ENTER("cudaGraphAddDependencies");
    for (size_t k = 0; k < count; k++) of(to[k])->after.push_back(of(from[k]));
    return cudaSuccess;
}
API cudaError_t cudaGraphRemoveDependencies(cudaGraph_t, const cudaGraphNode_t* from, const cudaGraphNode_t* to, const cudaGraphEdgeData*,
                                            size_t count) {
    ENTER("cudaGraphRemoveDependencies");
    for (size_t k = 0; k < count; k++) {
        auto& after = of(to[k])->after;
        after.erase(std::remove(after.begin(), after.end(), of(from[k])), after.end());
    }
    return cudaSuccess;
}
API cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
    ENTER("cudaGraphDestroyNode");
    Graph* graph = of(node)->graph;
    for (auto& other : graph->nodes) other->after.erase(std::remove(other->after.begin(), other->after.end(), of(node)), other->after.end());
    auto here = [&](const std::unique_ptr<Node>& one) { return one.get() == of(node); };
    graph->nodes.erase(std::find_if(graph->nodes.begin(), graph->nodes.end(), here));
    return cudaSuccess;
}
API cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t executable, cudaGraphNode_t node, unsigned enabled) {
    ENTER("cudaGraphNodeSetEnabled");
    Step* step = step_of(executable, node);
    if (!step) RETURN(cudaErrorInvalidValue);
    step->enabled = enabled;
    return cudaSuccess;
}
API cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t executable, cudaGraphNode_t node, unsigned* enabled) {
    ENTER("cudaGraphNodeGetEnabled");
    Step* step = step_of(executable, node);
    if (!step) RETURN(cudaErrorInvalidValue);
    *enabled = step->enabled;
    return cudaSuccess;
}

API cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count) {
    ENTER("cudaGraphAddEmptyNode");
    RETURN(add_plain(node, graph, cudaGraphNodeTypeEmpty, [] { return cudaSuccess; }, after, count));
}
API cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                       const cudaKernelNodeParams* p) {
    ENTER("cudaGraphAddKernelNode");
    RETURN(add_made(node, graph, cudaGraphNodeTypeKernel, after, count, p, kernel_work));
}
API cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                       const cudaMemcpy3DParms* p) {
    ENTER("cudaGraphAddMemcpyNode");
    RETURN(add_made(node, graph, cudaGraphNodeTypeMemcpy, after, count, p, copy_work));
}
API cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                       const cudaMemsetParams* p) {
    ENTER("cudaGraphAddMemsetNode");
    RETURN(add_made(node, graph, cudaGraphNodeTypeMemset, after, count, p, set_work));
}
API cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                     const cudaHostNodeParams* p) {
    ENTER("cudaGraphAddHostNode");
    RETURN(add_made(node, graph, cudaGraphNodeTypeHost, after, count, p, host_work));
}
API cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, void* to,
                                         const void* from, size_t bytes, cudaMemcpyKind kind) {
    ENTER("cudaGraphAddMemcpyNode1D");
    Line line = {to, from, bytes, kind};
    RETURN(add_made(node, graph, cudaGraphNodeTypeMemcpy, after, count, &line, line_work));
}
API cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                               const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
    ENTER("cudaGraphAddMemcpyNodeToSymbol");
    RETURN(add_plain(node, graph, cudaGraphNodeTypeMemcpy, [=] { return cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, nullptr); },
                     after, count));
}
API cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, void* to,
                                                 const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind) {
    ENTER("cudaGraphAddMemcpyNodeFromSymbol");
    RETURN(add_plain(node, graph, cudaGraphNodeTypeMemcpy, [=] { return cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, nullptr); },
                     after, count));
}
API cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, cudaGraph_t child) {
    ENTER("cudaGraphAddChildGraphNode");
    if (!child) RETURN(cudaErrorInvalidValue);
    RETURN(add_plain(node, graph, cudaGraphNodeTypeGraph, [] { return cudaSuccess; }, after, count, cloned(*of(child))));
}
API cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* graph) {
    ENTER("cudaGraphChildGraphNodeGetGraph");
    RETURN(node_get(node, reinterpret_cast<Graph**>(graph)));
}
API cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, cudaEvent_t event) {
    ENTER("cudaGraphAddEventRecordNode");
    RETURN(add_plain(node, graph, cudaGraphNodeTypeEventRecord, [=] { return cudaEventRecord(event, nullptr); }, after, count, event));
}
API cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, cudaEvent_t event) {
    ENTER("cudaGraphAddEventWaitNode");
    RETURN(add_plain(node, graph, cudaGraphNodeTypeWaitEvent, [=] { return cudaStreamWaitEvent(nullptr, event, 0); }, after, count, event));
}
API cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                         cudaMemAllocNodeParams* p) {
    ENTER("cudaGraphAddMemAllocNode");
    if (!p || !graph) RETURN(cudaErrorInvalidValue);
    cudaError_t error = cudaMalloc(&p->dptr, p->bytesize);  // at one address in every launch, as graphs have it
    if (error != cudaSuccess) return error;
    void* at = p->dptr;
    of(graph)->memory->pieces.push_back(at);
    graph_memory_add(at, p->bytesize);
    RETURN(add_plain(node, graph, cudaGraphNodeTypeMemAlloc, [=] { return graph_memory_begin(at); }, after, count, *p));
}
API cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, void* p) {
    ENTER("cudaGraphAddMemFreeNode");
    RETURN(add_plain(node, graph, cudaGraphNodeTypeMemFree, [=] { return cudaFreeAsync(p, nullptr); }, after, count, p));
}
API cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, const cudaGraphEdgeData*, size_t count,
                                 cudaGraphNodeParams* p) {
    ENTER("cudaGraphAddNode");
    if (!p) RETURN(cudaErrorInvalidValue);
    switch (p->type) {
        case cudaGraphNodeTypeEmpty: return cudaGraphAddEmptyNode(node, graph, after, count);
        case cudaGraphNodeTypeKernel: {
            cudaKernelNodeParams k = {p->kernel.func, p->kernel.gridDim, p->kernel.blockDim, p->kernel.sharedMemBytes, p->kernel.kernelParams, p->kernel.extra};
            return cudaGraphAddKernelNode(node, graph, after, count, &k);
        }
        case cudaGraphNodeTypeMemcpy: return cudaGraphAddMemcpyNode(node, graph, after, count, &p->memcpy.copyParams);
        case cudaGraphNodeTypeMemset: {
            cudaMemsetParams m = {p->memset.dst, p->memset.pitch, p->memset.value, p->memset.elementSize, p->memset.width, p->memset.height};
            return cudaGraphAddMemsetNode(node, graph, after, count, &m);
        }
        case cudaGraphNodeTypeHost: {
            cudaHostNodeParams h = {p->host.fn, p->host.userData};
            return cudaGraphAddHostNode(node, graph, after, count, &h);
        }
        case cudaGraphNodeTypeGraph: return cudaGraphAddChildGraphNode(node, graph, after, count, p->graph.graph);
        case cudaGraphNodeTypeEventRecord: return cudaGraphAddEventRecordNode(node, graph, after, count, p->eventRecord.event);
        case cudaGraphNodeTypeWaitEvent: return cudaGraphAddEventWaitNode(node, graph, after, count, p->eventWait.event);
        case cudaGraphNodeTypeMemFree: return cudaGraphAddMemFreeNode(node, graph, after, count, p->free.dptr);
        case cudaGraphNodeTypeMemAlloc: {
            cudaMemAllocNodeParams m = {};
            m.poolProps = p->alloc.poolProps, m.bytesize = p->alloc.bytesize;
            cudaError_t error = cudaGraphAddMemAllocNode(node, graph, after, count, &m);
            p->alloc.dptr = m.dptr;
            return error;
        }
        default: RETURN(unsupported("cudaGraphAddNode of this type"));
    }
}

API cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* p) {
    ENTER("cudaGraphKernelNodeGetParams");
    std::shared_ptr<KernelWork> found;
    cudaError_t error = node_get(node, &found);
    if (error == cudaSuccess) *p = found->parameters;
    RETURN(error);
}
API cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* p) {
    ENTER("cudaGraphKernelNodeSetParams");
    RETURN(node_set(node, p, kernel_work));
}
API cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* p) { ENTER("cudaGraphMemcpyNodeGetParams"); RETURN(node_get(node, p)); }
API cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* p) {
    ENTER("cudaGraphMemcpyNodeSetParams");
    RETURN(node_set(node, p, copy_work));
}
API cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    ENTER("cudaGraphMemcpyNodeSetParams1D");
    Line line = {to, from, bytes, kind};
    RETURN(node_set(node, &line, line_work));
}
API cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* p) { ENTER("cudaGraphMemsetNodeGetParams"); RETURN(node_get(node, p)); }
API cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* p) {
    ENTER("cudaGraphMemsetNodeSetParams");
    RETURN(node_set(node, p, set_work));
}
API cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* p) { ENTER("cudaGraphHostNodeGetParams"); RETURN(node_get(node, p)); }
API cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* p) {
    ENTER("cudaGraphHostNodeSetParams");
    RETURN(node_set(node, p, host_work));
}
API cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, cudaMemAllocNodeParams* p) {
    ENTER("cudaGraphMemAllocNodeGetParams");
    RETURN(node_get(node, p));
}
API cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* p) {
    ENTER("cudaGraphMemFreeNodeGetParams");
    RETURN(node_get(node, static_cast<void**>(p)));
}

API cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node, const cudaKernelNodeParams* p) {
    ENTER("cudaGraphExecKernelNodeSetParams");
    RETURN(step_set(executable, node, p, kernel_work));
}
API cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node, const cudaMemcpy3DParms* p) {
    ENTER("cudaGraphExecMemcpyNodeSetParams");
    RETURN(step_set(executable, node, p, copy_work));
}
API cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t executable, cudaGraphNode_t node, void* to, const void* from, size_t bytes,
                                                   cudaMemcpyKind kind) {
    ENTER("cudaGraphExecMemcpyNodeSetParams1D");
    Line line = {to, from, bytes, kind};
    RETURN(step_set(executable, node, &line, line_work));
}
API cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node, const cudaMemsetParams* p) {
    ENTER("cudaGraphExecMemsetNodeSetParams");
    RETURN(step_set(executable, node, p, set_work));
}
API cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node, const cudaHostNodeParams* p) {
    ENTER("cudaGraphExecHostNodeSetParams");
    RETURN(step_set(executable, node, p, host_work));
}
