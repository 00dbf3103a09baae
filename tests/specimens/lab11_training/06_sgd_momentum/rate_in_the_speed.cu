// rate_in_the_speed.cu: lets the rate into v, so that v is another one when the rate changes.
// Entry:   sgd_momentum(float w[N] inout, const float g[N] in, float v[N] inout, int N, float rate, float momentum,
//                       float decay)
// Launch:  sgd_momentum block=(THREADS) grid=(cdiv(N, THREADS * 4))

// expect: WA

constexpr int THREADS = 256;

__device__ void update(float& w, float g, float& v, float rate, float momentum, float decay)
{
    v = momentum * v + rate * (g + decay * w);
    w -= v;
}

extern "C" __global__ void __launch_bounds__(THREADS)
sgd_momentum(float* __restrict__ w, const float* __restrict__ g, float* __restrict__ v, int N,
             float rate, float momentum, float decay)
{
    const int i = (blockIdx.x * THREADS + threadIdx.x) * 4;
    if (i + 3 < N) {
        float4 weights = *reinterpret_cast<const float4*>(w + i);
        const float4 slopes = *reinterpret_cast<const float4*>(g + i);
        float4 speeds = *reinterpret_cast<const float4*>(v + i);
        update(weights.x, slopes.x, speeds.x, rate, momentum, decay);
        update(weights.y, slopes.y, speeds.y, rate, momentum, decay);
        update(weights.z, slopes.z, speeds.z, rate, momentum, decay);
        update(weights.w, slopes.w, speeds.w, rate, momentum, decay);
        *reinterpret_cast<float4*>(w + i) = weights;
        *reinterpret_cast<float4*>(v + i) = speeds;
    } else {
        for (int j = i; j < N; ++j) {
            update(w[j], g[j], v[j], rate, momentum, decay);
        }
    }
}
