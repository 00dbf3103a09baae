// right_square_blocks.cu: blocks of 16 x 16 touch two rows of A, and two sectors of B less.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(BLOCK_X, BLOCK_Y) grid=(cdiv(max(M, N), BLOCK_X), cdiv(max(M, N), BLOCK_Y))

// expect: AC

constexpr int BLOCK_X = 16;
constexpr int BLOCK_Y = 16;

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
        C[row * N + col] = sum;
    }
}
