// The example of docs/learn/programs.md: a sum whose last steps read what another warp still writes. Quick.
// finds: race 15
// finds: race 15
#include <cstdio>
#include <vector>

__global__ void block_sum(const float* x, float* sums, int n)
{
    __shared__ float part[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    for (int step = 128; step > 0; step /= 2)
        if (threadIdx.x < step)
            part[threadIdx.x] += part[threadIdx.x + step];
    if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

int main()
{
    const int n = 100000, blocks = (n + 255) / 256;
    std::vector<float> x(n, 1.0f), sums(blocks);
    float *d_x, *d_sums;
    cudaMalloc(&d_x, n * sizeof(float));
    cudaMalloc(&d_sums, blocks * sizeof(float));
    cudaMemcpy(d_x, x.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    block_sum<<<blocks, 256>>>(d_x, d_sums, n);
    cudaMemcpy(sums.data(), d_sums, blocks * sizeof(float), cudaMemcpyDeviceToHost);
    float total = 0;
    for (float s : sums) total += s;
    printf("%s\n", total == n ? "PASS" : "FAIL");
    cudaFree(d_x);
    cudaFree(d_sums);
    return 0;
}
