// Errors as the manual tells them: returned, remembered, forgotten when asked. Quick.
#include <cstdio>

__global__ void nothing() {}
__global__ void __launch_bounds__(64) small() {}

void last(const char* what)
{
    const char* first = cudaGetErrorName(cudaGetLastError());
    printf("%s: %s, then %s\n", what, first, cudaGetErrorName(cudaGetLastError()));
}

int main()
{
    void* p;
    printf("%s\n", cudaGetErrorString(cudaMalloc(&p, size_t(40) << 30)));
    last("40 GB");
    nothing<<<1, 2048>>>();
    last("2048 threads");
    nothing<<<0, 32>>>();
    last("no blocks");
    small<<<1, 128>>>();
    last("beyond its bounds");
    nothing<<<1, 32, 100 << 10>>>();
    last("100 KB of shared memory");
    printf("%s\n", cudaGetErrorName(cudaSetDevice(7)));
    int x;
    printf("%s\n", cudaGetErrorName(cudaMemcpy(&x, &x, 4, cudaMemcpyKind(9))));
    printf("%s\n", cudaGetErrorName(cudaMemcpy(nullptr, &x, 4, cudaMemcpyHostToDevice)));
    printf("%s\n", cudaGetErrorName(cudaPeekAtLastError()));
    last("peeked");
    nothing<<<1, 32>>>();
    last("fine");
    printf("%s %s\n", cudaGetErrorString(cudaDeviceSynchronize()), cudaGetErrorString(cudaError_t(12345)));
    return 0;
}
/* prints
out of memory
40 GB: cudaErrorMemoryAllocation, then cudaSuccess
2048 threads: cudaErrorInvalidConfiguration, then cudaSuccess
no blocks: cudaErrorInvalidConfiguration, then cudaSuccess
beyond its bounds: cudaErrorLaunchOutOfResources, then cudaSuccess
100 KB of shared memory: cudaErrorInvalidValue, then cudaSuccess
cudaErrorInvalidDevice
cudaErrorInvalidMemcpyDirection
cudaErrorInvalidValue
cudaErrorInvalidValue
peeked: cudaErrorInvalidValue, then cudaSuccess
fine: cudaSuccess, then cudaSuccess
no error unrecognized error code
*/
