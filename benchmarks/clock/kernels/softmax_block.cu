// softmax_block.cu: softmax of long rows, a block a row
// Entry:   softmax(const float x[R,C] in, float y[R,C] out, int R, int C)
// Launch:  softmax block=(256) grid=(R)

__device__ float over_block(float v, bool largest, float* parts)
{
    for (int step = 16; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(0xffffffff, v, step);
        v = largest ? fmaxf(v, other) : v + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
    __syncthreads();
    v = parts[0];
    for (int w = 1; w < 8; ++w) v = largest ? fmaxf(v, parts[w]) : v + parts[w];
    return v;
}
extern "C" __global__ void softmax(const float* __restrict__ x, float* __restrict__ y, int R, int C)
{
    __shared__ float parts[8];
    const float* row = x + (size_t)blockIdx.x * C;
    float top = -INFINITY;
    for (int c = threadIdx.x; c < C; c += 256) top = fmaxf(top, row[c]);
    top = over_block(top, true, parts);
    float sum = 0.0f;
    for (int c = threadIdx.x; c < C; c += 256) sum += __expf(row[c] - top);
    sum = over_block(sum, false, parts);
    for (int c = threadIdx.x; c < C; c += 256) y[(size_t)blockIdx.x * C + c] = __expf(row[c] - top) / sum;
}
