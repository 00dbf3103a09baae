// right_one_by_one.cu: a thread for each weight.
// Entry:   sgd_momentum(float w[N] inout, const float g[N] in, float v[N] inout, int N, float rate, float momentum,
//                       float decay)
// Launch:  sgd_momentum block=(THREADS) grid=(cdiv(N, THREADS))

// expect: AC

constexpr int THREADS = 256;

__device__ void update(float& w, float g, float& v, float rate, float momentum, float decay)
{
    v = momentum * v + (g + decay * w);
    w -= rate * v;
}

extern "C" __global__ void __launch_bounds__(THREADS)
sgd_momentum(float* __restrict__ w, const float* __restrict__ g, float* __restrict__ v, int N,
             float rate, float momentum, float decay)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < N) {
        update(w[i], g[i], v[i], rate, momentum, decay);
    }
}
