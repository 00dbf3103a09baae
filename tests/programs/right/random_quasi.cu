// Sobol's points by cuRAND's direction vectors, made by kernels and by the host's calls: both are the same. Needs cuRAND's package.
#include <cmath>
#include <cstdio>
#include <curand.h>
#include <curand_kernel.h>
#include <vector>

const int POINTS = 4096, DIMENSIONS = 24;

__global__ void points(curandDirectionVectors32_t* vectors, unsigned* out)
{
    curandStateSobol32_t state;
    curand_init(vectors[blockIdx.x], threadIdx.x + 1, &state);
    for (int k = threadIdx.x; k < POINTS; k += blockDim.x) {
        out[blockIdx.x * POINTS + k] = curand(&state);
        skipahead(blockDim.x - 1, &state);
    }
}

int main()
{
    curandDirectionVectors32_t *host, *vectors;
    unsigned *by_kernel, *by_host;
    float* normal;
    const size_t count = POINTS * DIMENSIONS;
    printf("%d\n", curandGetDirectionVectors32(&host, CURAND_DIRECTION_VECTORS_32_JOEKUO6));
    cudaMalloc(&vectors, DIMENSIONS * sizeof *vectors);
    cudaMemcpy(vectors, host, DIMENSIONS * sizeof *vectors, cudaMemcpyHostToDevice);
    cudaMalloc(&by_kernel, count * 4);
    cudaMalloc(&by_host, count * 4);
    cudaMalloc(&normal, count * 4);
    points<<<DIMENSIONS, 128>>>(vectors, by_kernel);

    curandGenerator_t g;
    curandCreateGenerator(&g, CURAND_RNG_QUASI_SOBOL32);
    printf("%d\n", curandSetQuasiRandomGeneratorDimensions(g, DIMENSIONS));
    printf("%d\n", curandGenerate(g, by_host, count));
    curandSetGeneratorOffset(g, 0);
    printf("%d\n", curandGenerateNormal(g, normal, count, 1, 2));
    std::vector<unsigned> a(count), b(count);
    std::vector<float> c(count);
    cudaMemcpy(a.data(), by_kernel, count * 4, cudaMemcpyDeviceToHost);
    cudaMemcpy(b.data(), by_host, count * 4, cudaMemcpyDeviceToHost);
    cudaMemcpy(c.data(), normal, count * 4, cudaMemcpyDeviceToHost);
    size_t different = 0;
    double worst_mean = 0, worst_quantile = 0;
    for (size_t k = 0; k < count; k++) different += a[k] != b[k];
    for (int d = 0; d < DIMENSIONS; d++) {
        double sum = 0;
        for (int k = 0; k < POINTS; k++) sum += a[d * POINTS + k] * 0x1p-32;
        worst_mean = fmax(worst_mean, fabs(sum / POINTS - 0.5));
    }
    for (size_t k = 0; k < count; k++)
        worst_quantile = fmax(worst_quantile, fabs(0.5 * erfc(-(c[k] - 1) / 2 / sqrt(2.0)) - (b[k] + 0.5) * 0x1p-32));
    printf("%zu differ, means %s, quantiles %s\n", different, worst_mean < 1e-3 ? "ok" : "WRONG", worst_quantile < 1e-6 ? "ok" : "WRONG");
    curandDestroyGenerator(g);
    cudaFree(vectors), cudaFree(by_kernel), cudaFree(by_host), cudaFree(normal);
}
/* prints
0
0
0
0
0 differ, means ok, quantiles ok
*/
