// add.cu: y = a + b: a result and what it was made of, or the slopes of two ways that one value went.
// Entry:   add(const float a[N] in, const float b[N] in, float y[N] out, int N)
// Launch:  add block=(THREADS) grid=(cdiv(N, THREADS))

constexpr int THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS)
add(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ y, int N)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < N) {
        y[i] = a[i] + b[i];
    }
}
