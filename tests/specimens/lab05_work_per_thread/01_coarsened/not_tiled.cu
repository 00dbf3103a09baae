// not_tiled.cu: right, but straight from global memory: no byte of shared memory, sixteen times the loads.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(TILE, RTS) grid=(cdiv(N, TILE), cdiv(M, TILE))

// expect: PERF

constexpr int TILE = 32;
constexpr int WPT = 8;
constexpr int RTS = TILE / WPT;

extern "C" __global__ void matmul(const float* __restrict__ A, const float* __restrict__ B,
                                  float* __restrict__ C, int M, int N, int K)
{
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row0 = blockIdx.y * TILE;
    const int col = blockIdx.x * TILE + x;
    float sum[WPT] = {};

    for (int k0 = 0; k0 < K; k0 += TILE) {
        for (int k = k0; k < min(k0 + TILE, K); ++k) {
            for (int w = 0; w < WPT; ++w) {
                if (row0 + y + w * RTS < M && col < N) {
                    sum[w] += A[(row0 + y + w * RTS) * K + k] * B[k * N + col];
                }
            }
        }
    }

    for (int w = 0; w < WPT; ++w) {
        const int row = row0 + y + w * RTS;
        if (row < M && col < N) {
            C[row * N + col] = sum[w];
        }
    }
}
