// lanes_along_columns.cu: right, but each lane loads from a row of Bt of its own.
// Entry:   matmul_bt(const float A[M,K] in, const float Bt[N,K] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul_bt block=(TILE, TILE) grid=(cdiv(N, TILE), cdiv(M, TILE))

constexpr int TILE = 32;

extern "C" __global__ void matmul_bt(const float* __restrict__ A, const float* __restrict__ Bt,
                                     float* __restrict__ C, int M, int N, int K)
{
    __shared__ float tileA[TILE][TILE];
    __shared__ float tileB[TILE][TILE];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row = blockIdx.y * TILE + y;
    const int col = blockIdx.x * TILE + x;
    float sum = 0.0f;

    for (int k0 = 0; k0 < K; k0 += TILE) {
        const int k1 = k0 + x;
        const int k2 = k0 + y;
        tileA[y][x] = row < M && k1 < K ? A[row * K + k1] : 0.0f;
        tileB[x][y] = col < N && k2 < K ? Bt[col * K + k2] : 0.0f;  // expect: PERF
        __syncthreads();
        for (int k = 0; k < TILE; ++k) {
            sum += tileA[y][k] * tileB[x][k];
        }
        __syncthreads();
    }

    if (row < M && col < N) {
        C[row * N + col] = sum;
    }
}
