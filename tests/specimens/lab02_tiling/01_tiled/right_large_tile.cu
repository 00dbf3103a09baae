// right_large_tile.cu: tiles of 32 x 32, each thread with four rows of C.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(SIDE, SIDE / ROWS) grid=(cdiv(N, SIDE), cdiv(M, SIDE))

// expect: AC

constexpr int SIDE = 32;
constexpr int ROWS = 4;

extern "C" __global__ void matmul(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
                                  int M, int N, int K)
{
    __shared__ float a[SIDE][SIDE], b[SIDE][SIDE];
    const int x = threadIdx.x;
    const int col = blockIdx.x * SIDE + x;
    float sum[ROWS] = {};
    for (int k0 = 0; k0 < K; k0 += SIDE) {
        for (int y = threadIdx.y; y < SIDE; y += SIDE / ROWS) {
            const int row = blockIdx.y * SIDE + y;
            a[y][x] = row < M && k0 + x < K ? A[row * K + k0 + x] : 0.0f;
            b[y][x] = k0 + y < K && col < N ? B[(k0 + y) * N + col] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < SIDE; ++k) {
            for (int r = 0; r < ROWS; ++r) {
                sum[r] += a[threadIdx.y + r * (SIDE / ROWS)][k] * b[k][x];
            }
        }
        __syncthreads();
    }
    for (int r = 0; r < ROWS; ++r) {
        const int row = blockIdx.y * SIDE + threadIdx.y + r * (SIDE / ROWS);
        if (row < M && col < N) {
            C[row * N + col] = sum[r];
        }
    }
}
