// right_other_block.cu: blocks of 8 rows and 32 columns, four products in flight.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(32, 8) grid=(cdiv(N, 32), cdiv(M, 8))

// expect: AC

extern "C" __global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int row = blockIdx.y * 8 + threadIdx.y;
    const int col = blockIdx.x * 32 + threadIdx.x;
    if (row >= M || col >= N) {
        return;
    }
    float sum[4] = {};
    int k = 0;
    for (; k + 3 < K; k += 4) {
        for (int j = 0; j < 4; ++j) {
            sum[j] += A[row * K + k + j] * B[(k + j) * N + col];
        }
    }
    for (; k < K; ++k) {
        sum[0] += A[row * K + k] * B[k * N + col];
    }
    C[row * N + col] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
}
