// gelu_backward.cu: the gradient of gelu.cu: the probability, plus x times the normal density.
// Entry:   gelu_backward(const float x[N] in, const float dy[N] in, float dx[N] out, int N)
// Launch:  gelu_backward block=(THREADS) grid=(cdiv(N, THREADS))

constexpr int THREADS = 256;
constexpr float ROOT_HALF = 0.70710678f;
constexpr float DENSITY = 0.39894228f;  // of a normal number at 0: 1 / sqrt(2 pi)

extern "C" __global__ void __launch_bounds__(THREADS)
gelu_backward(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ dx, int N)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < N) {
        const float below = 0.5f * (1.0f + erff(x[i] * ROOT_HALF));
        dx[i] = dy[i] * (below + x[i] * DENSITY * expf(-0.5f * x[i] * x[i]));
    }
}
