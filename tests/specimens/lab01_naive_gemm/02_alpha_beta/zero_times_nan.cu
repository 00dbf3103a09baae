// zero_times_nan.cu: reads C although beta is 0, and 0 * NaN is NaN.
// Entry:   gemm(const float A[M,K] in, const float B[K,N] in, const float C[M,N] in, float D[M,N] out,
//               int M, int N, int K, float alpha, float beta)
// Launch:  gemm block=(TILE, TILE) grid=(cdiv(N, TILE), cdiv(M, TILE))

// expect: WA

constexpr int TILE = 16;

extern "C" __global__ void gemm(const float* __restrict__ A, const float* __restrict__ B,
                                const float* __restrict__ C, float* __restrict__ D, int M, int N, int K,
                                float alpha, float beta)
{
    const int row = blockIdx.y * TILE + threadIdx.y;
    const int col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;

    if (row < M && col < N) {
        for (int k = 0; k < K; ++k) {
            sum += A[row * K + k] * B[k * N + col];
        }
        float result = alpha * sum;
        result += beta * C[row * N + col];
        D[row * N + col] = result;
    }
}
