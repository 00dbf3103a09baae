// block_too_large.cu: asks for blocks of 2048 threads.
// Entry:   matrix_add(const float A[M,N] in, const float B[M,N] in, float C[M,N] out, int M, int N)
// Launch:  matrix_add block=(BLOCK_X, BLOCK_Y) grid=(cdiv(N, BLOCK_X), cdiv(M, BLOCK_Y))

// expect: LE line 3

constexpr int BLOCK_X = 32;
constexpr int BLOCK_Y = 64; 

extern "C" __global__ void matrix_add(const float* __restrict__ A, const float* __restrict__ B,
                                      float* __restrict__ C, int M, int N)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < M && col < N) {
        C[row * N + col] = A[row * N + col] + B[row * N + col];
    }
}
