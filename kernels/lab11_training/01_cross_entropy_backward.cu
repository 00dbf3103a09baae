// 01_cross_entropy_backward.cu: how wrong a batch is, and which way is less wrong.
// Idea:    softmax turns scores into probabilities, p[c] = exp(x[c]) / sum of exp(x). The loss of an image is -log of
//          its label's probability. Its slope in the scores is as simple as can be: p[c], minus 1 for the label. Both
//          come from the same exponentials, so one kernel gives both; the slope is that of the batch's mean loss.
//          exp overflows beyond 88: subtract the largest score first, which changes no probability.
//          A warp has an image. Lanes exchange sums by shuffles, and no lane needs shared memory.
// From:    lab10_lenet/07_softmax.cu
// Limits:  with 10 classes 22 of 32 lanes have nothing to do; the scores are read three times, twice from L1.
// Entry:   cross_entropy(const float x[BATCH,CLASSES] in, const int label[BATCH] in, float loss[BATCH] out,
//                        float dx[BATCH,CLASSES] out, int BATCH, int CLASSES)
// Launch:  cross_entropy block=(32, ROWS) grid=(cdiv(BATCH, ROWS))

constexpr int ROWS = 8;  // images of a block, one for each warp
constexpr unsigned ALL = 0xffffffffu;
constexpr float LOWEST = -3.402823466e38f;  // of all floats

// The largest value of a warp, and the sum: every lane has the result.
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
    if (row >= BATCH) return;  // a whole warp: nobody waits for it

    const float* from = x + static_cast<size_t>(row) * CLASSES;
    float* to = dx + static_cast<size_t>(row) * CLASSES;
    const int right = label[row];
    float largest = LOWEST;
    float sum = 0.0f;
    // BEGIN SOLUTION: the largest score, then the sum of exp(score - largest), both for the whole warp (about 8 lines)
    // END SOLUTION
    const float scale = 1.0f / static_cast<float>(BATCH);  // the slope is that of the mean over the batch
    const float share = __frcp_rn(sum);                    // 1 / sum: one division for the row, not one for each class
    for (int c = lane; c < CLASSES; c += 32) {
        // BEGIN SOLUTION: the slope of class c; the label's lane also writes the loss (about 5 lines)
        // END SOLUTION
    }
}
