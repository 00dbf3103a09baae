// A straight line of 5,000 multiply-adds on eight sums, to see how long such a kernel takes to compile.
constexpr int STEPS = 5000;

extern "C" __global__ void unrolled(float* y, float x)
{
    float sum[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) sum[k] = threadIdx.x + k;
#pragma unroll
    for (int k = 0; k < STEPS; ++k) sum[k % 8] = sum[k % 8] * x + (k % 97 + 1) * 0.125f;
    float total = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) total += sum[k];
    y[blockIdx.x * blockDim.x + threadIdx.x] = total;
}
