// Managed memory: pointers in structures, the host before and after kernels; __managed__ variables. Quick.
#include <cstdio>

struct Node {
    int value;
    Node* next;
};
__managed__ int total = 100;

__global__ void sum(const Node* list)
{
    for (; list; list = list->next) total += list->value;
}

int main()
{
    Node* nodes;
    cudaMallocManaged(&nodes, 5 * sizeof(Node));
    for (int k = 0; k < 5; k++) nodes[k] = {k, k < 4 ? &nodes[k + 1] : nullptr};
    sum<<<1, 1>>>(nodes);
    cudaDeviceSynchronize();
    printf("%d\n", total);
    nodes[2].value = 1000;
    total = 0;
    sum<<<1, 1>>>(nodes);
    cudaDeviceSynchronize();
    printf("%d\n", total);
    cudaPointerAttributes about;
    cudaPointerGetAttributes(&about, nodes);
    printf("%d\n", about.type == cudaMemoryTypeManaged && about.hostPointer == nodes);
    cudaFree(nodes);
    return 0;
}
/* prints
110
1008
1
*/
