// Host functions in streams, after what was put in before them.
#include <cstdio>

__global__ void set(int* x, int v) { *x = v; }
int* shared_value;
void tell(void* what) { printf("%s %d\n", (const char*)what, *shared_value); }
void CUDART_CB old_style(cudaStream_t, cudaError_t error, void* what) { printf("%s %s\n", (const char*)what, cudaGetErrorName(error)); }

int main()
{
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaMallocHost(&shared_value, sizeof(int));
    set<<<1, 1, 0, stream>>>(shared_value, 1);
    cudaLaunchHostFunc(stream, tell, (void*)"first");
    set<<<1, 1, 0, stream>>>(shared_value, 2);
    cudaLaunchHostFunc(stream, tell, (void*)"second");
    cudaStreamAddCallback(stream, old_style, (void*)"callback", 0);
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    cudaFreeHost(shared_value);
    return 0;
}
/* prints
first 1
second 2
callback cudaSuccess
*/
