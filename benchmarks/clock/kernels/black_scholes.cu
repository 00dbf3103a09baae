// black_scholes.cu: prices of European calls
// Entry:   price(const float spot[n] in, const float strike[n] in, float call[n] out, int n)
// Launch:  price block=(128) grid=(cdiv(n, 128))

__device__ float normal(float d)
{
    return 0.5f * erfcf(-0.70710678f * d);
}
extern "C" __global__ void price(const float* __restrict__ spot, const float* __restrict__ strike, float* __restrict__ call, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float s = fabsf(spot[i]) * 100.0f + 1.0f, k = fabsf(strike[i]) * 100.0f + 1.0f;
    const float rate = 0.02f, sigma = 0.3f, years = 1.5f, root = sigma * sqrtf(years);
    const float d1 = (logf(s / k) + (rate + 0.5f * sigma * sigma) * years) / root, d2 = d1 - root;
    call[i] = s * normal(d1) - k * expf(-rate * years) * normal(d2);
}
