// not_tiled.cu: the naive kernel: right, but it loads 16 times as much.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(TILE, TILE) grid=(cdiv(N, TILE), cdiv(M, TILE))

// expect: PERF

constexpr int TILE = 16;

extern "C" __global__ void matmul(const float* __restrict__ A, const float* __restrict__ B,
                                  float* __restrict__ C, int M, int N, int K)
{
    const int row = blockIdx.y * TILE + threadIdx.y;
    const int col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;

    for (int k0 = 0; k0 < K; k0 += TILE) {
        for (int k = k0; k < min(k0 + TILE, K); ++k) {
            if (row < M && col < N) {
                sum += A[row * K + k] * B[k * N + col];
            }
        }
    }

    if (row < M && col < N) {
        C[row * N + col] = sum;
    }
}
