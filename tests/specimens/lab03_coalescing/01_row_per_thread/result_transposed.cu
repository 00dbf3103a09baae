// result_transposed.cu: row and column are exchanged in the store.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(BLOCK_X, BLOCK_Y) grid=(cdiv(max(M, N), BLOCK_X), cdiv(max(M, N), BLOCK_Y))

// expect: WA

constexpr int BLOCK_X = 32;
constexpr int BLOCK_Y = 8;

extern "C" __global__ void matmul(const float* __restrict__ A, const float* __restrict__ B,
                                  float* __restrict__ C, int M, int N, int K)
{
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y;
    const int col = blockIdx.x * BLOCK_X + threadIdx.x;
    float sum = 0.0f;

    if (row < M && col < N) {
        for (int k = 0; k < K; ++k) {
            sum += A[row * K + k] * B[k * N + col];
        }
        C[col * M + row] = sum;
    }
}
