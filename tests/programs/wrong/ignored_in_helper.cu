// A helper hands the error on, and its caller drops it. Quick.
// finds: ignored-error 7
#include <cstdio>

static cudaError_t reserve(float** x, size_t bytes)
{
    return cudaMalloc(x, bytes);
}

int main()
{
    float* x = nullptr;
    cudaError_t error = reserve(&x, 40ull << 30);
    if (error != cudaSuccess) error = reserve(&x, 41ull << 30);
    if (error != cudaSuccess)
        reserve(&x, 42ull << 30);
    printf("%p\n", static_cast<void*>(x));
    return 0;
}
/* prints
(nil)
*/
