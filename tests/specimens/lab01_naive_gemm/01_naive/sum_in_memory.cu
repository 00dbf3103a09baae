// sum_in_memory.cu: right, but the sum travels to memory and back for every k.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(TILE, TILE) grid=(cdiv(N, TILE), cdiv(M, TILE))

// expect: PERF

constexpr int TILE = 16;

extern "C" __global__ void matmul(const float* __restrict__ A, const float* __restrict__ B,
                                  float* __restrict__ C, int M, int N, int K)
{
    const int row = blockIdx.y * TILE + threadIdx.y;
    const int col = blockIdx.x * TILE + threadIdx.x;

    if (row < M && col < N) {
        volatile float* sum = C + row * N + col;
        *sum = 0.0f;
        for (int k = 0; k < K; ++k) {
            *sum += A[row * K + k] * B[k * N + col];
        }
    }
}
