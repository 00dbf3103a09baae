// cuRAND's calls of the host: distributions by their moments, seeds and offsets, points of a quasi-random sequence.
#include <cmath>
#include <cstdio>
#include <curand.h>
#include <vector>

const int N = 1 << 16;

template <typename T>
void moments(const char* name, const T* device, double mean, double deviation)
{
    std::vector<T> x(N);
    cudaMemcpy(x.data(), device, N * sizeof(T), cudaMemcpyDeviceToHost);
    double sum = 0, squares = 0;
    for (T value : x) sum += value, squares += double(value) * value;
    double m = sum / N, d = sqrt(squares / N - m * m);
    bool ok = fabs(m - mean) < 6 * deviation / sqrt(N) && fabs(d - deviation) < 0.05 * deviation;
    printf("%s %s\n", name, ok ? "ok" : "WRONG");
}

int main()
{
    float *x, again[4], later[2];
    double* y;
    unsigned* k;
    cudaMalloc(&x, N * sizeof(float));
    cudaMalloc(&y, N * sizeof(double));
    cudaMalloc(&k, N * sizeof(unsigned));
    curandGenerator_t g;
    curandCreateGenerator(&g, CURAND_RNG_PSEUDO_DEFAULT);
    curandSetPseudoRandomGeneratorSeed(g, 1234ULL);
    curandGenerateUniform(g, x, N);
    moments("uniform", x, 0.5, sqrt(1.0 / 12));
    cudaMemcpy(again, x, sizeof again, cudaMemcpyDeviceToHost);
    curandSetPseudoRandomGeneratorSeed(g, 1234ULL);
    curandSetGeneratorOffset(g, 2);
    curandGenerateUniform(g, x, 2);
    cudaMemcpy(later, x, sizeof later, cudaMemcpyDeviceToHost);
    printf("offset %d\n", later[0] == again[2] && later[1] == again[3]);
    curandGenerateUniformDouble(g, y, N);
    moments("uniform double", y, 0.5, sqrt(1.0 / 12));
    curandGenerateNormal(g, x, N, 3, 2);
    moments("normal", x, 3, 2);
    curandGenerateNormalDouble(g, y, N, -1, 0.5);
    moments("normal double", y, -1, 0.5);
    curandGenerateLogNormal(g, x, N, 0, 0.25f);
    moments("log-normal", x, exp(0.03125), exp(0.03125) * sqrt(exp(0.0625) - 1));
    curandGeneratePoisson(g, k, N, 10);
    moments("poisson", k, 10, sqrt(10.0));
    curandGenerate(g, k, N);
    moments("bits", k, 2147483648.0, 4294967296.0 * sqrt(1.0 / 12));
    printf("%d %d\n", curandGenerateNormal(g, x, 3, 0, 1), CURAND_STATUS_LENGTH_NOT_MULTIPLE);
    curandDestroyGenerator(g);
    curandCreateGenerator(&g, CURAND_RNG_QUASI_SOBOL32);
    curandSetQuasiRandomGeneratorDimensions(g, 2);
    curandGenerateUniform(g, x, N);
    std::vector<float> points(N);
    cudaMemcpy(points.data(), x, N * sizeof(float), cudaMemcpyDeviceToHost);
    int inside = 0;
    for (int i = 0; i < N / 2; i++) inside += points[i] * points[i] + points[N / 2 + i] * points[N / 2 + i] < 1;
    printf("pi %d\n", fabs(4.0 * inside / (N / 2) - M_PI) < 1e-3);
    curandDestroyGenerator(g);
    std::vector<double> host(4);
    curandCreateGeneratorHost(&g, CURAND_RNG_PSEUDO_MT19937);
    curandGenerateUniformDouble(g, host.data(), 4);
    printf("host %d\n", host[0] > 0 && host[0] <= 1 && host[0] != host[1]);
    curandDestroyGenerator(g);
    cudaFree(x);
    cudaFree(y);
    cudaFree(k);
    return 0;
}
/* prints
uniform ok
offset 1
uniform double ok
normal ok
normal double ok
log-normal ok
poisson ok
bits ok
105 105
pi 1
host 1
*/
