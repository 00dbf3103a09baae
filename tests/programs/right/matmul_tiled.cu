// A tiled product against the host's.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int TILE = 16;
__global__ void matmul(const float* a, const float* b, float* c, int n)
{
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k += TILE) {
        as[threadIdx.y][threadIdx.x] = row < n && k + threadIdx.x < n ? a[row * n + k + threadIdx.x] : 0;
        bs[threadIdx.y][threadIdx.x] = col < n && k + threadIdx.y < n ? b[(k + threadIdx.y) * n + col] : 0;
        __syncthreads();
        for (int j = 0; j < TILE; j++) sum += as[threadIdx.y][j] * bs[j][threadIdx.x];
        __syncthreads();
    }
    if (row < n && col < n) c[row * n + col] = sum;
}

int main()
{
    const int n = 127;
    std::vector<float> a(n * n), b(n * n), c(n * n);
    srand(1);
    for (auto& v : a) v = rand() / float(RAND_MAX);
    for (auto& v : b) v = rand() / float(RAND_MAX);
    float *da, *db, *dc;
    for (auto p : {&da, &db, &dc}) cudaMalloc(p, n * n * sizeof(float));
    cudaMemcpy(da, a.data(), n * n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(db, b.data(), n * n * sizeof(float), cudaMemcpyHostToDevice);
    dim3 block(TILE, TILE), grid((n + TILE - 1) / TILE, (n + TILE - 1) / TILE);
    matmul<<<grid, block>>>(da, db, dc, n);
    cudaMemcpy(c.data(), dc, n * n * sizeof(float), cudaMemcpyDeviceToHost);
    double worst = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int k = 0; k < n; k++) sum += double(a[i * n + k]) * b[k * n + j];
            worst = fmax(worst, fabs(sum - c[i * n + j]));
        }
    printf("%s\n", worst < 1e-3 ? "PASS" : "FAIL");
    for (float* p : {da, db, dc}) cudaFree(p);
    return 0;
}
/* prints
PASS
*/
