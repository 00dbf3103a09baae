// graphs_patched.cu: nodes of a recorded graph are asked what they are made of, and given something else.
// gpu: h200
// arch: compute_90a
#include <cstdio>
#include <cuda_runtime.h>

__global__ void put(int* p, int v) { p[threadIdx.x] = v; }

__global__ void __cluster_dims__(2, 1, 1) ranks(int* p, int more)
{
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) p[blockIdx.x] = rank + more;
}

void called(void* data) { printf("called with %d\n", *(int*)data); }

int main()
{
    int *p, *q, first = 7, second = 8, back[4] = {};
    cudaMalloc(&p, 4 * sizeof(int));
    cudaMalloc(&q, 4 * sizeof(int));
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaGraph_t graph;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaMemsetAsync(p, 1, 4 * sizeof(int), stream);
    put<<<1, 2, 0, stream>>>(p, 3);
    cudaMemcpyAsync(q, p, 4 * sizeof(int), cudaMemcpyDeviceToDevice, stream);
    cudaMemcpy2DAsync(back, 8, q, 8, 8, 2, cudaMemcpyDeviceToHost, stream);
    cudaLaunchHostFunc(stream, called, &first);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphExec_t made;
    cudaGraphInstantiate(&made, graph, 0);
    cudaGraphLaunch(made, stream);
    cudaStreamSynchronize(stream);
    printf("%d %d %x %x\n", back[0], back[1], back[2], back[3]);

    cudaGraphNode_t nodes[5];
    size_t count = 5;
    cudaGraphGetNodes(graph, nodes, &count);
    for (size_t k = 0; k < count; ++k) {
        cudaGraphNodeType type;
        cudaGraphNodeGetType(nodes[k], &type);
        if (type == cudaGraphNodeTypeMemset) {
            cudaMemsetParams set;
            printf("set: %s, ", cudaGetErrorName(cudaGraphMemsetNodeGetParams(nodes[k], &set)));
            printf("%d %d %d %d\n", set.dst == p, (int)set.value, (int)(set.width * set.elementSize), (int)set.height);
            set.value = 2;
            printf("%s\n", cudaGetErrorName(cudaGraphExecMemsetNodeSetParams(made, nodes[k], &set)));
        } else if (type == cudaGraphNodeTypeKernel) {
            cudaKernelNodeParams kernel;
            printf("kernel: %s, ", cudaGetErrorName(cudaGraphKernelNodeGetParams(nodes[k], &kernel)));
            printf("%d %d %d\n", kernel.func == (void*)put, (int)kernel.blockDim.x, *(int*)kernel.kernelParams[1]);
            int value = 5;
            kernel.kernelParams[1] = &value;
            kernel.blockDim.x = 3;
            printf("%s\n", cudaGetErrorName(cudaGraphExecKernelNodeSetParams(made, nodes[k], &kernel)));
        } else if (type == cudaGraphNodeTypeMemcpy) {
            cudaMemcpy3DParms copy;
            printf("copy: %s, ", cudaGetErrorName(cudaGraphMemcpyNodeGetParams(nodes[k], &copy)));
            printf("%d %d, rows of %d\n", (int)copy.extent.width, (int)copy.extent.height, (int)copy.srcPtr.pitch);
        } else if (type == cudaGraphNodeTypeHost) {
            cudaHostNodeParams host;
            printf("host: %s, ", cudaGetErrorName(cudaGraphHostNodeGetParams(nodes[k], &host)));
            printf("%d\n", *(int*)host.userData);
            host.userData = &second;
            cudaGraphExecHostNodeSetParams(made, nodes[k], &host);
        }
    }
    cudaGraphLaunch(made, stream);
    cudaStreamSynchronize(stream);
    printf("%d %d %d %x\n", back[0], back[1], back[2], back[3]);
    cudaGraphExecDestroy(made);
    cudaGraphDestroy(graph);

    // a launch keeps the shape of its clusters when its arguments change
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    ranks<<<4, 32, 0, stream>>>(p, 0);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&made, graph, 0);
    cudaGraphNode_t only;
    count = 1;
    cudaGraphGetNodes(graph, &only, &count);
    cudaKernelNodeParams kernel;
    cudaGraphKernelNodeGetParams(only, &kernel);
    int more = 10;
    kernel.kernelParams[1] = &more;
    cudaGraphExecKernelNodeSetParams(made, only, &kernel);
    cudaGraphLaunch(made, stream);
    cudaMemcpyAsync(back, p, sizeof back, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    printf("%d %d %d %d\n", back[0], back[1], back[2], back[3]);
    cudaGraphExecDestroy(made);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    cudaFree(q);
    cudaFree(p);
    return 0;
}
/* prints
called with 7
3 3 1010101 1010101
set: cudaSuccess, 1 1 16 1
cudaSuccess
kernel: cudaSuccess, 1 2 3
cudaSuccess
copy: cudaSuccess, 16 1, rows of 16
copy: cudaSuccess, 8 2, rows of 8
host: cudaSuccess, 7
called with 8
5 5 5 2020202
10 11 10 11
*/
