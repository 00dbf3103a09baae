// lanes_apart.cu: lanes of a warp take elements that lie far apart.
// Entry:   relu(const float x[BATCH,C,P] in, const float bias[C] in, float y[BATCH,C,P] out, int BATCH, int C, int P)
// Needs:   BATCH * C * P <= 2000000000
// Launch:  relu block=(THREADS) grid=(cdiv(BATCH * C * P, THREADS))

constexpr int THREADS = 256;

extern "C" __global__ void relu(const float* __restrict__ x, const float* __restrict__ bias, float* __restrict__ y,
                                int BATCH, int C, int P)
{
    const int i = blockIdx.x * THREADS + threadIdx.x % 8 * 32 + threadIdx.x / 8;  // a channel has P elements, an image C channels

    if (i < BATCH * C * P) {
        const int c = i / P % C;
        y[i] = fmaxf(x[i] + bias[c], 0.0f);  // expect: PERF
    }
}
