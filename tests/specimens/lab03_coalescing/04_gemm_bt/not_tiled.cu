// not_tiled.cu: right, but straight from memory: every lane walks along a row of Bt.
// Entry:   matmul_bt(const float A[M,K] in, const float Bt[N,K] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul_bt block=(TILE, TILE) grid=(cdiv(N, TILE), cdiv(M, TILE))

constexpr int TILE = 32;

extern "C" __global__ void matmul_bt(const float* __restrict__ A, const float* __restrict__ Bt,
                                     float* __restrict__ C, int M, int N, int K)
{
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row = blockIdx.y * TILE + y;
    const int col = blockIdx.x * TILE + x;
    float sum = 0.0f;

    for (int k = 0; k < K; ++k) {
        if (row < M && col < N) {
            sum += A[row * K + k] * Bt[col * K + k];  // expect: PERF
        }
    }

    if (row < M && col < N) {
        C[row * N + col] = sum;
    }
}
