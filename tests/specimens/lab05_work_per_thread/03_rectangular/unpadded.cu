// unpadded.cu: rows of 32 floats: the pairs of a column lie in the same two banks.
// Entry:   matmul_bt(const float A[M,K] in, const float Bt[N,K] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul_bt block=(TSN, RTSM) grid=(cdiv(N, TSN), cdiv(M, TSM))

constexpr int TSM = 64;
constexpr int TSN = 64;
constexpr int TSK = 32;
constexpr int WPTM = 8;
constexpr int RTSM = TSM / WPTM;
constexpr int PAD = 0;

extern "C" __global__ void matmul_bt(const float* __restrict__ A, const float* __restrict__ Bt,
                                     float* __restrict__ C, int M, int N, int K)
{
    __shared__ __align__(8) float tileA[TSM][TSK];
    __shared__ __align__(8) float tileB[TSN][TSK + PAD];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    float sum[WPTM] = {};

    for (int k0 = 0; k0 < K; k0 += TSK) {
        for (int i = y * TSN + x; i < TSM * TSK; i += RTSM * TSN) {
            const int row = row0 + i / TSK;
            const int k1 = k0 + i % TSK;
            tileA[i / TSK][i % TSK] = row < M && k1 < K ? A[row * K + k1] : 0.0f;
        }
        for (int i = y * TSN + x; i < TSN * TSK; i += RTSM * TSN) {
            const int col = col0 + i / TSK;
            const int k1 = k0 + i % TSK;
            tileB[i / TSK][i % TSK] = col < N && k1 < K ? Bt[col * K + k1] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < TSK; k += 2) {
            const float2 b = *reinterpret_cast<const float2*>(&tileB[x][k]);  // expect: PERF
            for (int w = 0; w < WPTM; ++w) {
                const float2 a = *reinterpret_cast<const float2*>(&tileA[y + w * RTSM][k]);
                sum[w] += a.x * b.x;
                sum[w] += a.y * b.y;
            }
        }
        __syncthreads();
    }

    for (int w = 0; w < WPTM; ++w) {
        const int row = row0 + y + w * RTSM;
        if (row < M && col0 + x < N) {
            C[row * N + col0 + x] = sum[w];
        }
    }
}
