// halves_crossed.cu: multiplies the first float of one pair with the second of the other.
// Entry:   matmul_bt(const float A[M,K] in, const float Bt[N,K] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul_bt block=(TILE, TILE) grid=(cdiv(N, TILE), cdiv(M, TILE))

// expect: WA

constexpr int TILE = 32;
constexpr int PAD = 2;

extern "C" __global__ void matmul_bt(const float* __restrict__ A, const float* __restrict__ Bt,
                                     float* __restrict__ C, int M, int N, int K)
{
    __shared__ __align__(8) float tileA[TILE][TILE];
    __shared__ __align__(8) float tileB[TILE][TILE + PAD];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row = blockIdx.y * TILE + y;
    const int col = blockIdx.x * TILE + x;
    float sum = 0.0f;

    for (int k0 = 0; k0 < K; k0 += TILE) {
        const int k1 = k0 + x;
        const int colB = blockIdx.x * TILE + y;
        tileA[y][x] = row < M && k1 < K ? A[row * K + k1] : 0.0f;
        tileB[y][x] = colB < N && k1 < K ? Bt[colB * K + k1] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE; k += 2) {
            const float2 a = *reinterpret_cast<const float2*>(&tileA[y][k]);
            const float2 b = *reinterpret_cast<const float2*>(&tileB[x][k]);
            sum += a.x * b.y;
            sum += a.y * b.x;
        }
        __syncthreads();
    }

    if (row < M && col < N) {
        C[row * N + col] = sum;
    }
}
