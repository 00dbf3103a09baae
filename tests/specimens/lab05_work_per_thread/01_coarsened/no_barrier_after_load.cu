// no_barrier_after_load.cu: multiplies before the tiles are complete.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(TILE, RTS) grid=(cdiv(N, TILE), cdiv(M, TILE))

constexpr int TILE = 32;
constexpr int WPT = 8;
constexpr int RTS = TILE / WPT;

extern "C" __global__ void matmul(const float* __restrict__ A, const float* __restrict__ B,
                                  float* __restrict__ C, int M, int N, int K)
{
    __shared__ float tileA[TILE][TILE];
    __shared__ float tileB[TILE][TILE];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row0 = blockIdx.y * TILE;
    const int col = blockIdx.x * TILE + x;
    float sum[WPT] = {};

    for (int k0 = 0; k0 < K; k0 += TILE) {
        for (int i = y; i < TILE; i += RTS) {
            const int ka = k0 + x;
            const int kb = k0 + i;
            tileA[i][x] = row0 + i < M && ka < K ? A[(row0 + i) * K + ka] : 0.0f;
            tileB[i][x] = kb < K && col < N ? B[kb * N + col] : 0.0f;
        }
        for (int k = 0; k < TILE; ++k) {
            const float b = tileB[k][x];
            for (int w = 0; w < WPT; ++w) {
                sum[w] += tileA[y + w * RTS][k] * b;  // expect: RACE
            }
        }
        __syncthreads();
    }

    for (int w = 0; w < WPT; ++w) {
        const int row = row0 + y + w * RTS;
        if (row < M && col < N) {
            C[row * N + col] = sum[w];
        }
    }
}
