// Attention forward, softmax(Q K^T / 8) V for one head of size 64 a blockIdx.y; online softmax, any length.
constexpr int SIZE = 64, ROWS = 32, KEYS = 32; // a thread owns a row of queries

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* out, int length)
{
    __shared__ float keys[KEYS][SIZE], values[KEYS][SIZE];
    const size_t head = size_t(blockIdx.y) * length * SIZE;
    const int row = blockIdx.x * ROWS + threadIdx.x;
    float query[SIZE], sum[SIZE], largest = -INFINITY, total = 0.0f;
#pragma unroll
    for (int i = 0; i < SIZE; ++i) {
        query[i] = row < length ? q[head + size_t(row) * SIZE + i] * 0.125f : 0.0f;
        sum[i] = 0.0f;
    }
    for (int first = 0; first < length; first += KEYS) {
        for (int i = threadIdx.x; i < KEYS * SIZE; i += ROWS) {
            const size_t from = head + size_t(first) * SIZE + i;
            const bool inside = first + i / SIZE < length;
            keys[i / SIZE][i % SIZE] = inside ? k[from] : 0.0f;
            values[i / SIZE][i % SIZE] = inside ? v[from] : 0.0f;
        }
        __syncthreads();
        const int count = min(KEYS, length - first);
        for (int j = 0; j < count; ++j) {
            float score = 0.0f;
#pragma unroll
            for (int i = 0; i < SIZE; ++i)
                score += query[i] * keys[j][i];
            const float now = fmaxf(largest, score), scale = expf(largest - now), weight = expf(score - now);
            largest = now;
            total = total * scale + weight;
#pragma unroll
            for (int i = 0; i < SIZE; ++i)
                sum[i] = sum[i] * scale + weight * values[j][i];
        }
        __syncthreads();
    }
    if (row < length)
#pragma unroll
        for (int i = 0; i < SIZE; ++i)
            out[head + size_t(row) * SIZE + i] = sum[i] / total;
}
