// right_two_buffers.cu: two pairs of tiles in turn, so that one barrier a round is enough.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(TILE, TILE) grid=(cdiv(N, TILE), cdiv(M, TILE))

// expect: AC

constexpr int TILE = 16;

extern "C" __global__ void matmul(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
                                  int M, int N, int K)
{
    __shared__ float tiles[2][2][TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * TILE + y;
    const int col = blockIdx.x * TILE + x;
    float sum = 0.0f;
    int now = 0;
    for (int k0 = 0; k0 < K; k0 += TILE, now ^= 1) {
        tiles[now][0][y][x] = row < M && k0 + x < K ? A[row * K + k0 + x] : 0.0f;
        tiles[now][1][y][x] = k0 + y < K && col < N ? B[(k0 + y) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE; ++k) {
            sum += tiles[now][0][y][k] * tiles[now][1][k][x];
        }
    }
    if (row < M && col < N) {
        C[row * N + col] = sum;
    }
}
