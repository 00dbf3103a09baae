// label_forgotten.cu: probabilities, without the 1 of the label.
// Entry:   cross_entropy(const float x[BATCH,CLASSES] in, const int label[BATCH] in, float loss[BATCH] out,
//                        float dx[BATCH,CLASSES] out, int BATCH, int CLASSES)
// Launch:  cross_entropy block=(32, ROWS) grid=(cdiv(BATCH, ROWS))

// expect: WA

constexpr int ROWS = 8;
constexpr unsigned ALL = 0xffffffffu;
constexpr float LOWEST = -3.402823466e38f;

__device__ float largest_of_warp(float value)
{
    #pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        value = fmaxf(value, __shfl_xor_sync(ALL, value, distance));
    }
    return value;
}

__device__ float sum_of_warp(float value)
{
    #pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(ALL, value, distance);
    }
    return value;
}

extern "C" __global__ void __launch_bounds__(32 * ROWS)
cross_entropy(const float* __restrict__ x, const int* __restrict__ label, float* __restrict__ loss,
              float* __restrict__ dx, int BATCH, int CLASSES)
{
    const int lane = threadIdx.x;
    const int row = blockIdx.x * ROWS + threadIdx.y;
    if (row >= BATCH) return;

    const float* from = x + static_cast<size_t>(row) * CLASSES;
    float* to = dx + static_cast<size_t>(row) * CLASSES;
    const int right = label[row];
    float largest = LOWEST;
    float sum = 0.0f;
    for (int c = lane; c < CLASSES; c += 32) {
        largest = fmaxf(largest, from[c]);
    }
    largest = largest_of_warp(largest);
    for (int c = lane; c < CLASSES; c += 32) {
        sum += expf(from[c] - largest);
    }
    sum = sum_of_warp(sum);
    const float scale = 1.0f / static_cast<float>(BATCH);
    const float share = __frcp_rn(sum);
    for (int c = lane; c < CLASSES; c += 32) {
        const float score = from[c] - largest;
        to[c] = (expf(score) * share) * scale;
        if (c == right) {
            loss[row] = logf(sum) - score;
        }
    }
}
