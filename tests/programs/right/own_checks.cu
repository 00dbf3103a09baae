// Calls fail, and each is looked at in a way of the program's own: none is told. Quick.
#include <cstdio>

#define OK(call) ((call) == cudaSuccess)
#define TRY(call) do { cudaError_t got = (call); failures += got != cudaSuccess; } while (0)

int failures = 0;

__global__ void nothing() {}

cudaError_t reserve(float** x, size_t bytes)
{
    return cudaMalloc(x, bytes);
}

void count(cudaError_t error) { failures += error != cudaSuccess; }

struct Status {
    cudaError_t code;
    Status& operator=(cudaError_t error) { code = error; return *this; }
};

int main()
{
    const size_t huge = 40ull << 30;
    float* x = nullptr;
    if (cudaMalloc(&x, huge)) failures++;
    if (!OK(cudaMalloc(&x, huge))) failures++;
    TRY(cudaMalloc(&x, huge));
    TRY(cudaMalloc(
        &x,
        huge));
    count(cudaSetDevice(7));
    if (reserve(&x, huge) != cudaSuccess) failures++;
    Status status;
    status = cudaMalloc(&x, huge);  // cudaSetDevice(9); is no call
    failures += status.code == cudaErrorMemoryAllocation;
    (void)cudaSetDevice(5);
    cudaError_t kept =
        cudaSetDevice(6);
    failures += kept != cudaSuccess;
    void* none[1] = {};
    if (cudaLaunchKernel((void*)nothing, dim3(1), dim3(4096), none, 0, 0) != cudaSuccess) failures++;
    printf("%d failures\n", failures);
    return 0;
}
/* prints
9 failures
*/
