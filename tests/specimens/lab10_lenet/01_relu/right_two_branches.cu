// right_two_branches.cu: asks instead of taking the larger one.
// Entry:   relu(const float x[BATCH,C,P] in, const float bias[C] in, float y[BATCH,C,P] out, int BATCH, int C, int P)
// Needs:   BATCH * C * P <= 2000000000
// Launch:  relu block=(THREADS) grid=(cdiv(BATCH * C * P, THREADS))

// expect: AC

constexpr int THREADS = 256;

extern "C" __global__ void relu(const float* __restrict__ x, const float* __restrict__ bias, float* __restrict__ y,
                                int BATCH, int C, int P)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;  // a channel has P elements, an image C channels

    if (i < BATCH * C * P) {
        const int c = i / P % C;
        const float value = x[i] + bias[c];
        y[i] = value > 0.0f ? value : 0.0f;
    }
}
