// Solves systems of ten equations, one a thread: L U in registers, forwards, backwards, all written out; no pivots.
constexpr int SIZE = 10, THREADS = 64;

// `a` holds the systems side by side: element (row, col) of all of them, one after the other.
extern "C" __global__ void lu(const float* a, const float* b, float* x, int count)
{
    const int t = blockIdx.x * THREADS + threadIdx.x;
    if (t >= count)
        return;
    float m[SIZE][SIZE], v[SIZE];
#pragma unroll
    for (int i = 0; i < SIZE; ++i) {
#pragma unroll
        for (int j = 0; j < SIZE; ++j)
            m[i][j] = a[size_t(i * SIZE + j) * count + t];
        v[i] = b[size_t(i) * count + t];
    }
#pragma unroll
    for (int k = 0; k < SIZE; ++k) {
        const float inverse = 1.0f / m[k][k];
#pragma unroll
        for (int i = k + 1; i < SIZE; ++i) {
            const float factor = m[i][k] * inverse;
#pragma unroll
            for (int j = k + 1; j < SIZE; ++j)
                m[i][j] -= factor * m[k][j];
            v[i] -= factor * v[k];
        }
    }
#pragma unroll
    for (int i = SIZE - 1; i >= 0; --i) {
#pragma unroll
        for (int j = i + 1; j < SIZE; ++j)
            v[i] -= m[i][j] * v[j];
        v[i] /= m[i][i];
        x[size_t(i) * count + t] = v[i];
    }
}
