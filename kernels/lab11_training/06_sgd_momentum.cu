// 06_sgd_momentum.cu: one step downhill, with momentum.
// Idea:    v = momentum * v + g, w = w - rate * v. A weight that is pushed the same way step after step gathers speed;
//          one that is pushed to and fro stays where it is. Decay adds decay * w to the slope: weights nobody needs
//          shrink. All parameters of a network lie in one array, so the whole step is one launch: three numbers are
//          read and two written for each weight, 20 bytes, and the arithmetic is free.
// Limits:  momentum doubles the memory of the parameters.
// Entry:   sgd_momentum(float w[N] inout, const float g[N] in, float v[N] inout, int N, float rate, float momentum,
//                       float decay)
// Launch:  sgd_momentum block=(THREADS) grid=(cdiv(N, THREADS * 4))

constexpr int THREADS = 256;  // each takes four weights

__device__ void update(float& w, float g, float& v, float rate, float momentum, float decay)
{
    // BEGIN SOLUTION: the new v, then the new w (about 2 lines)
    // END SOLUTION
}

extern "C" __global__ void __launch_bounds__(THREADS)
sgd_momentum(float* __restrict__ w, const float* __restrict__ g, float* __restrict__ v, int N,
             float rate, float momentum, float decay)
{
    const int i = (blockIdx.x * THREADS + threadIdx.x) * 4;
    if (i + 3 < N) {
        // BEGIN SOLUTION: four weights by float4s: load, update, store (about 9 lines)
        // END SOLUTION
    } else {
        for (int j = i; j < N; ++j) {  // the last one to three
            update(w[j], g[j], v[j], rate, momentum, decay);
        }
    }
}
