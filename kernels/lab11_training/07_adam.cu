// 07_adam.cu: a step whose length each weight finds for itself.
// Idea:    m is a running mean of the slope, v one of its square; the step is m / sqrt(v): about `rate` for a weight
//          whose slope keeps its sign, small where it jumps. Both means start at zero and are too small at first: the
//          launcher passes 1 / (1 - beta^t), which corrects that exactly, so that no thread computes a power.
//          Four numbers are read and three written for each weight: 28 bytes.
// From:    06_sgd_momentum.cu
// Limits:  the means triple the memory of the parameters.
// Entry:   adam(float w[N] inout, const float g[N] in, float m[N] inout, float v[N] inout, int N, float rate,
//               float beta1, float beta2, float epsilon, float correction1, float correction2)
// Launch:  adam block=(THREADS) grid=(cdiv(N, THREADS * 4))

constexpr int THREADS = 256;  // each takes four weights

struct Settings {
    float rate, beta1, beta2, epsilon, correction1, correction2;
};

__device__ void update(float& w, float g, float& m, float& v, const Settings& by)
{
    // BEGIN SOLUTION: the new means, then the new w, with corrected means (about 3 lines)
    // END SOLUTION
}

extern "C" __global__ void __launch_bounds__(THREADS)
adam(float* __restrict__ w, const float* __restrict__ g, float* __restrict__ m, float* __restrict__ v, int N,
     float rate, float beta1, float beta2, float epsilon, float correction1, float correction2)
{
    const Settings by = {rate, beta1, beta2, epsilon, correction1, correction2};
    const int i = (blockIdx.x * THREADS + threadIdx.x) * 4;
    if (i + 3 < N) {
        // BEGIN SOLUTION: four weights by float4s: load, update, store (about 11 lines)
        // END SOLUTION
    } else {
        for (int j = i; j < N; ++j) {  // the last one to three
            update(w[j], g[j], m[j], v[j], by);
        }
    }
}
