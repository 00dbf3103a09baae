// loss.cu: cross entropy of scores and its slopes, multiplied by the loss's scale, as halfs; their sums for a bias.
// Idea:    slopes of a mean over images are small, and halfs below 6e-8 are zero: the loss is multiplied by a scale and
//          what comes of it is divided again by it when weights are updated. Largest score first, so that no power
//          overflows. A block has an image.
// From:    lab11_training/01_cross_entropy_backward.cu
// Entry:   loss(const float scores[BATCH,N] in, const int label[BATCH] in, half slopes[BATCH,N] out, float sums[N] inout,
//               float mean[1] inout, const float state[8] in, int BATCH, int N)
// Launch:  loss block=(THREADS) grid=(BATCH)

#include <cuda_fp16.h>

constexpr int THREADS = 256;
constexpr int SCALE = 0;  // number of the state

// The largest (or the sum) of all threads' values.
__device__ float joined(float value, bool adds, float* room)
{
    #pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, value, apart);
        value = adds ? value + other : fmaxf(value, other);
    }
    __syncthreads();  // the room is free
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = value;
    __syncthreads();
    value = room[0];
    for (int warp = 1; warp < THREADS / 32; ++warp) {
        value = adds ? value + room[warp] : fmaxf(value, room[warp]);
    }
    return value;
}

extern "C" __global__ void __launch_bounds__(THREADS) loss(const float* scores, const int* label, half* slopes,
                                                           float* sums, float* mean, const float* state, int BATCH, int N)
{
    __shared__ float room[THREADS / 32];
    const float* const own = scores + static_cast<long long>(blockIdx.x) * N;
    float largest = -INFINITY;
    for (int n = threadIdx.x; n < N; n += THREADS) {
        largest = fmaxf(largest, own[n]);
    }
    largest = joined(largest, false, room);
    float sum = 0.0f;
    for (int n = threadIdx.x; n < N; n += THREADS) {
        sum += expf(own[n] - largest);
    }
    sum = joined(sum, true, room);
    const int right = label[blockIdx.x];
    for (int n = threadIdx.x; n < N; n += THREADS) {
        const float slope = (expf(own[n] - largest) / sum - (n == right ? 1.0f : 0.0f)) / BATCH * state[SCALE];
        const half rounded = __float2half(slope);
        slopes[static_cast<long long>(blockIdx.x) * N + n] = rounded;
        atomicAdd(&sums[n], __half2float(rounded));
    }
    if (threadIdx.x == 0) atomicAdd(mean, (logf(sum) + largest - own[right]) / BATCH);
}
