// A graph that is recorded from a stream and launched three times.
#include <cstdio>

__global__ void add(int* x, int by) { x[threadIdx.x] += by; }

int main()
{
    int *x, host[4];
    cudaMalloc(&x, sizeof host);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaMemsetAsync(x, 0, sizeof host, stream);
    for (int k = 1; k <= 10; k++) add<<<1, 4, 0, stream>>>(x, k);
    cudaMemcpyAsync(host, x, sizeof host, cudaMemcpyDeviceToHost, stream);
    cudaStreamEndCapture(stream, &graph);
    host[2] = -1;
    size_t nodes;
    cudaGraphGetNodes(graph, nullptr, &nodes);
    cudaGraphInstantiate(&ready, graph, 0);
    printf("%zu %d\n", nodes, host[2]);
    for (int k = 0; k < 3; k++) cudaGraphLaunch(ready, stream);
    cudaStreamSynchronize(stream);
    printf("%d\n", host[2]);
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    cudaFree(x);
    return 0;
}
/* prints
12 -1
55
*/
