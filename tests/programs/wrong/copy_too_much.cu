// Bytes and elements confused the other way round. Quick.
// finds: copy-bounds 11
#include <cstdio>
#include <vector>

int main()
{
    std::vector<float> host(1000);
    float* x;
    cudaMalloc(&x, 1000);
    cudaError_t error = cudaMemcpy(x, host.data(), 1000 * sizeof(float), cudaMemcpyHostToDevice);
    printf("%s\n", cudaGetErrorName(error));
    cudaFree(x);
    return 0;
}
/* prints
cudaErrorInvalidValue
*/
