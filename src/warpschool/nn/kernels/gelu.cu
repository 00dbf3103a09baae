// gelu.cu: y = x times the probability that a normal number is below x (Hendrycks, Gimpel 2016).
// Entry:   gelu(const float x[N] in, float y[N] out, int N)
// Launch:  gelu block=(THREADS) grid=(cdiv(N, THREADS))

constexpr int THREADS = 256;
constexpr float ROOT_HALF = 0.70710678f;

extern "C" __global__ void __launch_bounds__(THREADS) gelu(const float* __restrict__ x, float* __restrict__ y, int N)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < N) {
        y[i] = 0.5f * x[i] * (1.0f + erff(x[i] * ROOT_HALF));
    }
}
