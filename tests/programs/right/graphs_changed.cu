// Graphs that change: other parameters of nodes and of executable graphs, clones, graphs in graphs, memory that graphs allocate.
#include <cstdio>

__global__ void add(int* x, int what) { *x += what; }
__global__ void fill(int* x, int value, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = value;
}
__global__ void sum(const int* x, int n, int* total)
{
    for (int i = 0; i < n; i++) *total += x[i];
}

int* x;
int read()
{
    int host;
    cudaMemcpy(&host, x, sizeof host, cudaMemcpyDeviceToHost);
    return host;
}

int main()
{
    cudaMalloc(&x, sizeof(int));
    cudaMemset(x, 0, sizeof(int));
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaGraph_t graph, clone, child;
    cudaGraphCreate(&graph, 0);
    int what = 1;
    void* arguments[] = {&x, &what};
    cudaKernelNodeParams p = {};
    p.func = (void*)add;
    p.gridDim = p.blockDim = dim3(1);
    p.kernelParams = arguments;
    cudaGraphNode_t first, second, inner;
    cudaGraphAddKernelNode(&first, graph, nullptr, 0, &p);
    what = 10;
    cudaGraphAddKernelNode(&second, graph, &first, 1, &p);
    cudaGraphExec_t made;
    cudaGraphInstantiate(&made, graph, NULL, NULL, 0);  // as it was until CUDA 11
    cudaGraphLaunch(made, stream);
    printf("%d\n", read());
    what = 100;
    cudaGraphExecKernelNodeSetParams(made, second, &p);
    cudaGraphLaunch(made, stream);
    printf("%d\n", read());

    cudaGraphClone(&clone, graph);
    cudaGraphNodeFindInClone(&inner, first, clone);
    what = 1000;
    cudaGraphKernelNodeSetParams(inner, &p);
    cudaGraphExecUpdateResultInfo info;
    printf("%s\n", cudaGetErrorName(cudaGraphExecUpdate(made, clone, &info)));
    cudaGraphLaunch(made, stream);
    printf("%d\n", read());

    cudaKernelNodeParams asked;
    cudaGraphKernelNodeGetParams(second, &asked);
    printf("%d\n", *(int*)asked.kernelParams[1]);
    size_t roots, edges;
    cudaGraphGetRootNodes(graph, nullptr, &roots);
    cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges);
    printf("%d root, %d edge\n", (int)roots, (int)edges);
    cudaGraphCreate(&child, 0);
    cudaGraphAddChildGraphNode(&inner, child, nullptr, 0, graph);
    const char* name = cudaGetErrorName(cudaGraphExecUpdate(made, child, &info));
    printf("%s %d\n", name, info.result != cudaGraphExecUpdateSuccess);
    cudaGraphExecDestroy(made);
    cudaGetLastError();
    cudaMemset(x, 0, sizeof(int));
    cudaGraphInstantiate(&made, child, 0);
    cudaGraphLaunch(made, stream);
    printf("%d\n", read());
    cudaGraphExecDestroy(made);
    cudaGraphDestroy(child);
    cudaGraphDestroy(clone);
    cudaGraphDestroy(graph);

    int* numbers;  // allocated and freed while the stream is recorded
    cudaMemset(x, 0, sizeof(int));
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaMallocAsync(&numbers, 64 * sizeof(int), stream);
    fill<<<2, 32, 0, stream>>>(numbers, 3, 64);
    sum<<<1, 1, 0, stream>>>(numbers, 64, x);
    cudaFreeAsync(numbers, stream);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&made, graph, 0);
    cudaGraphDestroy(graph);
    cudaGraphLaunch(made, stream);
    cudaGraphLaunch(made, stream);
    printf("%d\n", read());
    cudaGraphExecDestroy(made);
    cudaStreamDestroy(stream);
    cudaFree(x);
    return 0;
}
/* prints
11
112
cudaSuccess
1122
10
1 root, 1 edge
cudaErrorGraphExecUpdateFailure 1
11
384
*/
