// batch_norm.cu: mean and variance of each channel over all images (Welford), then the normalised images, a block a channel
// Entry:   normalise(const float x[BATCH,C,S] in, const float scale[C] in, const float shift[C] in, float y[BATCH,C,S] out, int BATCH, int C, int S)
// Launch:  normalise block=(512) grid=(C)

struct Moments {
    float count, mean, squares;

    __device__ void add(float value)
    {
        count += 1.0f;
        const float away = value - mean;
        mean += away / count;
        squares += away * (value - mean);
    }

    __device__ void merge(const Moments& other)
    {
        const float total = count + other.count;
        if (total == 0.0f) return;
        const float away = other.mean - mean;
        mean += away * other.count / total;
        squares += other.squares + away * away * count * other.count / total;
        count = total;
    }

    __device__ Moments from(int lanes) const
    {
        return {__shfl_down_sync(~0u, count, lanes), __shfl_down_sync(~0u, mean, lanes), __shfl_down_sync(~0u, squares, lanes)};
    }
};

extern "C" __global__ void normalise(const float* __restrict__ x, const float* __restrict__ scale, const float* __restrict__ shift, float* __restrict__ y, int BATCH, int C, int S)
{
    __shared__ Moments parts[16];
    const int c = blockIdx.x;
    Moments found{0.0f, 0.0f, 0.0f};
    for (int image = 0; image < BATCH; ++image)
        for (int k = threadIdx.x; k < S; k += blockDim.x) found.add(x[(image * C + c) * S + k]);
    for (int lanes = 16; lanes > 0; lanes >>= 1) found.merge(found.from(lanes));
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = found;
    __syncthreads();
    if (threadIdx.x < 32) {
        found = threadIdx.x < 16 ? parts[threadIdx.x] : Moments{0.0f, 0.0f, 0.0f};
        for (int lanes = 8; lanes > 0; lanes >>= 1) found.merge(found.from(lanes));
        if (threadIdx.x == 0) parts[0] = found;
    }
    __syncthreads();
    const float factor = scale[c] * rsqrtf(parts[0].squares / parts[0].count + 1e-5f);
    const float offset = shift[c] - parts[0].mean * factor;
    for (int image = 0; image < BATCH; ++image)
        for (int k = threadIdx.x; k < S; k += blockDim.x) {
            const int at = (image * C + c) * S + k;
            y[at] = x[at] * factor + offset;
        }
}
