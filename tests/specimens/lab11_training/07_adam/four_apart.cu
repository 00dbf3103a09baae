// four_apart.cu: right, but a thread takes four neighbours one by one: every store touches four times the sectors.
// Entry:   adam(float w[N] inout, const float g[N] in, float m[N] inout, float v[N] inout, int N, float rate,
//               float beta1, float beta2, float epsilon, float correction1, float correction2)
// Launch:  adam block=(THREADS) grid=(cdiv(N, THREADS * 4))

constexpr int THREADS = 256;

struct Settings {
    float rate, beta1, beta2, epsilon, correction1, correction2;
};

__device__ void update(float& w, float g, float& m, float& v, const Settings& by)
{
    m = by.beta1 * m + (1.0f - by.beta1) * g;  // expect: PERF
    v = by.beta2 * v + (1.0f - by.beta2) * g * g;
    w -= by.rate * (m * by.correction1) / (sqrtf(v * by.correction2) + by.epsilon);
}

extern "C" __global__ void __launch_bounds__(THREADS)
adam(float* __restrict__ w, const float* __restrict__ g, float* __restrict__ m, float* __restrict__ v, int N,
     float rate, float beta1, float beta2, float epsilon, float correction1, float correction2)
{
    const Settings by = {rate, beta1, beta2, epsilon, correction1, correction2};
    const int i = (blockIdx.x * THREADS + threadIdx.x) * 4;
    if (i + 3 < N) {
        update(w[i], g[i], m[i], v[i], by);
        update(w[i + 1], g[i + 1], m[i + 1], v[i + 1], by);
        update(w[i + 2], g[i + 2], m[i + 2], v[i + 2], by);
        update(w[i + 3], g[i + 3], m[i + 3], v[i + 3], by);
    } else {
        for (int j = i; j < N; ++j) {
            update(w[j], g[j], m[j], v[j], by);
        }
    }
}
