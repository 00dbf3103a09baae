// Memory of a graph: nodes that allocate and free, memory that outlives a launch, is freed outside and comes back with the next.
#include <cstdio>

__global__ void fill(int* p, int n, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = value + i;
}
__global__ void add(const int* p, int* sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(sum, p[i]);
}

const char* name(cudaError_t error) { return cudaGetErrorName(error); }

int main() {
    const int n = 256;
    int* sum;
    cudaMallocManaged(&sum, sizeof(int));
    cudaStream_t stream;
    cudaStreamCreate(&stream);

    cudaGraph_t graph;
    cudaGraphCreate(&graph, 0);
    cudaMemAllocNodeParams wanted = {};
    wanted.poolProps.allocType = cudaMemAllocationTypePinned;
    wanted.poolProps.location = {cudaMemLocationTypeDevice, 0};
    wanted.bytesize = n * sizeof(int);
    cudaGraphNode_t allocates, fills, adds, frees;
    cudaGraphAddMemAllocNode(&allocates, graph, nullptr, 0, &wanted);
    int* p = static_cast<int*>(wanted.dptr);
    int count = n, value = 1000;
    void* given[] = {&p, &count, &value};
    cudaKernelNodeParams kernel = {(void*)fill, dim3(1), dim3(n), 0, given, nullptr};
    cudaGraphAddKernelNode(&fills, graph, &allocates, 1, &kernel);

    cudaGraphExec_t leaves, tidy, freer;
    cudaGraphInstantiate(&leaves, graph, 0);
    for (int round = 0; round < 2; round++) {
        printf("launch %s, ", name(cudaGraphLaunch(leaves, stream)));
        printf("again %s, ", name(cudaGraphLaunch(leaves, stream)));
        cudaStreamSynchronize(stream);
        *sum = 0;
        add<<<1, n, 0, stream>>>(p, sum, n);
        cudaStreamSynchronize(stream);
        printf("sum %d, ", *sum);
        printf("free %s, ", name(round ? cudaFreeAsync(p, stream) : cudaFree(p)));
        printf("twice %s\n", name(cudaFree(p)));
    }

    cudaGraph_t only;
    cudaGraphCreate(&only, 0);
    cudaGraphAddMemFreeNode(&frees, only, nullptr, 0, p);
    cudaGraphInstantiate(&freer, only, 0);
    printf("another graph: %s", name(cudaGraphLaunch(leaves, stream)));
    printf(" %s", name(cudaGraphLaunch(freer, stream)));
    printf(" %s\n", name(cudaGraphLaunch(freer, stream)));

    void* summed[] = {&p, &sum, &count};
    kernel = {(void*)add, dim3(1), dim3(n), 0, summed, nullptr};
    cudaGraphAddKernelNode(&adds, graph, &fills, 1, &kernel);
    cudaGraphExec_t often;
    cudaGraphInstantiate(&often, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch);
    cudaStreamSynchronize(stream);
    *sum = 0;
    for (int k = 0; k < 3; k++) cudaGraphLaunch(often, stream);
    cudaStreamSynchronize(stream);
    printf("freed at each launch: %d\n", *sum);
    cudaFreeAsync(p, stream);

    cudaGraphAddMemFreeNode(&frees, graph, &adds, 1, p);
    cudaGraphInstantiate(&tidy, graph, 0);
    *sum = 0;
    for (int k = 0; k < 3; k++) cudaGraphLaunch(tidy, stream);
    cudaStreamSynchronize(stream);
    printf("with a node that frees: %d\n", *sum);

    cudaDeviceGraphMemTrim(0);
    size_t held, most;
    cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &held);
    cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &most);
    printf("held %zu, at most %zu\n", held, most);

    int* recorded;
    cudaGraph_t captured;
    cudaGraphExec_t replayed;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaMallocAsync(&recorded, n * sizeof(int), stream);
    fill<<<1, n, 0, stream>>>(recorded, n, 0);
    add<<<1, n, 0, stream>>>(recorded, sum, n);
    cudaFreeAsync(recorded, stream);
    cudaStreamEndCapture(stream, &captured);
    cudaGraphInstantiate(&replayed, captured, 0);
    *sum = 0;
    for (int k = 0; k < 2; k++) cudaGraphLaunch(replayed, stream);
    cudaStreamSynchronize(stream);
    printf("captured: %d\n", *sum);

    for (cudaGraphExec_t e : {leaves, tidy, freer, often, replayed}) cudaGraphExecDestroy(e);
    for (cudaGraph_t g : {graph, only, captured}) cudaGraphDestroy(g);
    cudaStreamDestroy(stream);
    cudaFree(sum);
}
/* prints
launch cudaSuccess, again cudaErrorInvalidValue, sum 288640, free cudaSuccess, twice cudaErrorInvalidValue
launch cudaSuccess, again cudaErrorInvalidValue, sum 288640, free cudaSuccess, twice cudaErrorInvalidValue
another graph: cudaSuccess cudaSuccess cudaErrorInvalidValue
freed at each launch: 865920
with a node that frees: 865920
held 0, at most 1024
captured: 65280
*/
