// A sum by shared memory and shuffles, in two launches; 4 million numbers.
#include <cstdio>
#include <vector>

__global__ void partial(const float* x, float* out, int n)
{
    __shared__ float sums[8];
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
    for (int k = 16; k; k >>= 1) v += __shfl_down_sync(~0u, v, k);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 32) {
        v = threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : 0;
        for (int k = 4; k; k >>= 1) v += __shfl_down_sync(~0u, v, k);
        if (threadIdx.x == 0) out[blockIdx.x] = v;
    }
}

int main()
{
    const int n = 1 << 22, blocks = 128;
    std::vector<float> x(n);
    for (int i = 0; i < n; i++) x[i] = (i % 7) * 0.25f;
    float *d, *parts, *sum, result;
    cudaMalloc(&d, n * sizeof(float));
    cudaMalloc(&parts, blocks * sizeof(float));
    cudaMalloc(&sum, sizeof(float));
    cudaMemcpy(d, x.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    partial<<<blocks, 256>>>(d, parts, n);
    partial<<<1, 256>>>(parts, sum, blocks);
    cudaMemcpy(&result, sum, sizeof result, cudaMemcpyDeviceToHost);
    double right = 0;
    for (float v : x) right += v;
    printf("%s\n", (result - right) / right < 1e-5 && (right - result) / right < 1e-5 ? "PASS" : "FAIL");
    cudaFree(d);
    cudaFree(parts);
    cudaFree(sum);
    return 0;
}
/* prints
PASS
*/
