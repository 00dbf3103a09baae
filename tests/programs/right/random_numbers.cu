// cuRAND's device header: pi by chance.
#include <cmath>
#include <cstdio>
#include <curand_kernel.h>

__global__ void throw_darts(unsigned* hits, int each)
{
    curandState state;
    curand_init(1234, blockIdx.x * blockDim.x + threadIdx.x, 0, &state);
    unsigned mine = 0;
    for (int k = 0; k < each; k++) {
        float x = curand_uniform(&state), y = curand_uniform(&state);
        mine += x * x + y * y <= 1;
    }
    atomicAdd(hits, mine);
}

int main()
{
    unsigned *hits, host;
    cudaMalloc(&hits, sizeof host);
    cudaMemset(hits, 0, sizeof host);
    throw_darts<<<8, 64>>>(hits, 200);
    cudaMemcpy(&host, hits, sizeof host, cudaMemcpyDeviceToHost);
    double pi = 4.0 * host / (8 * 64 * 200);
    printf("%s\n", std::fabs(pi - 3.14159) < 0.03 ? "PASS" : "FAIL");
    cudaFree(hits);
    return 0;
}
/* prints
PASS
*/
