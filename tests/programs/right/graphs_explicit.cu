// A graph made node by node, whose dependencies are not the order of making.
#include <cstdio>

__global__ void times(int* x, int by) { *x *= by; }

int main()
{
    int *x, host = 0, two = 2, start = 7;
    cudaMalloc(&x, sizeof host);
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    cudaGraphCreate(&graph, 0);
    cudaGraphNode_t out, in, kernel;
    cudaGraphAddMemcpyNode1D(&out, graph, nullptr, 0, &host, x, sizeof host, cudaMemcpyDeviceToHost);
    cudaKernelNodeParams p = {};
    void* arguments[] = {&x, &two};
    p.func = (void*)times, p.gridDim = 1, p.blockDim = 1, p.kernelParams = arguments;
    cudaGraphAddKernelNode(&kernel, graph, nullptr, 0, &p);
    cudaGraphAddMemcpyNode1D(&in, graph, nullptr, 0, x, &start, sizeof start, cudaMemcpyHostToDevice);
    cudaGraphNode_t from[] = {in, kernel}, to[] = {kernel, out};
    cudaGraphAddDependencies(graph, from, to, nullptr, 2);
    cudaGraphInstantiate(&ready, graph, 0);
    two = 100;  // the node has its own copy
    cudaGraphLaunch(ready, 0);
    cudaDeviceSynchronize();
    printf("%d\n", host);
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
    cudaFree(x);
    return 0;
}
/* prints
14
*/
