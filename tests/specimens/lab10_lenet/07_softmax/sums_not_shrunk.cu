// sums_not_shrunk.cu: adds powers of different bases.
// Entry:   softmax(const float x[BATCH,CLASSES] in, float y[BATCH,CLASSES] out, int BATCH, int CLASSES)
// Launch:  softmax block=(32, WARPS) grid=(cdiv(BATCH, WARPS))

// expect: WA

constexpr int WARPS = 4;  // and images of a block

extern "C" __global__ void softmax(const float* __restrict__ x, float* __restrict__ y, int BATCH, int CLASSES)
{
    const int lane = threadIdx.x;
    const int image = blockIdx.x * WARPS + threadIdx.y;
    if (image >= BATCH) return;  // a whole warp
    const float* scores = x + static_cast<size_t>(image) * CLASSES;
    float* result = y + static_cast<size_t>(image) * CLASSES;
    float largest = -3.0e38f;  // of the scores that this lane has seen: less than any of them,
    float sum = 0.0f;          // and the sum of exp(score - largest)

    for (int i = lane; i < CLASSES; i += 32) {
        const float before = largest;
        largest = fmaxf(before, scores[i]);
        sum = sum * expf(before - largest) + expf(scores[i] - largest);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        const float other = __shfl_xor_sync(0xffffffff, largest, distance);
        const float more = __shfl_xor_sync(0xffffffff, sum, distance);
        const float before = largest;
        largest = fmaxf(before, other);
        sum = sum + more;
    }

    for (int i = lane; i < CLASSES; i += 32) {
        result[i] = expf(scores[i] - largest) / sum;
    }
}
