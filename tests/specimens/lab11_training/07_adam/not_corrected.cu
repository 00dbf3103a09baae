// not_corrected.cu: takes both means as they are, too small at first.
// Entry:   adam(float w[N] inout, const float g[N] in, float m[N] inout, float v[N] inout, int N, float rate,
//               float beta1, float beta2, float epsilon, float correction1, float correction2)
// Launch:  adam block=(THREADS) grid=(cdiv(N, THREADS * 4))

// expect: WA

constexpr int THREADS = 256;

struct Settings {
    float rate, beta1, beta2, epsilon, correction1, correction2;
};

__device__ void update(float& w, float g, float& m, float& v, const Settings& by)
{
    m = by.beta1 * m + (1.0f - by.beta1) * g;
    v = by.beta2 * v + (1.0f - by.beta2) * g * g;
    w -= by.rate * m / (sqrtf(v) + by.epsilon);
}

extern "C" __global__ void __launch_bounds__(THREADS)
adam(float* __restrict__ w, const float* __restrict__ g, float* __restrict__ m, float* __restrict__ v, int N,
     float rate, float beta1, float beta2, float epsilon, float correction1, float correction2)
{
    const Settings by = {rate, beta1, beta2, epsilon, correction1, correction2};
    const int i = (blockIdx.x * THREADS + threadIdx.x) * 4;
    if (i + 3 < N) {
        float4 weights = *reinterpret_cast<const float4*>(w + i);
        const float4 slopes = *reinterpret_cast<const float4*>(g + i);
        float4 means = *reinterpret_cast<const float4*>(m + i);
        float4 squares = *reinterpret_cast<const float4*>(v + i);
        update(weights.x, slopes.x, means.x, squares.x, by);
        update(weights.y, slopes.y, means.y, squares.y, by);
        update(weights.z, slopes.z, means.z, squares.z, by);
        update(weights.w, slopes.w, means.w, squares.w, by);
        *reinterpret_cast<float4*>(w + i) = weights;
        *reinterpret_cast<float4*>(m + i) = means;
        *reinterpret_cast<float4*>(v + i) = squares;
    } else {
        for (int j = i; j < N; ++j) {
            update(w[j], g[j], m[j], v[j], by);
        }
    }
}
