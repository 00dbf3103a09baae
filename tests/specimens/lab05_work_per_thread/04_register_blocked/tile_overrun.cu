// tile_overrun.cu: reads one step of k past the end of the tiles.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(THREADS) grid=(cdiv(N, TSN), cdiv(M, TSM))

constexpr int TSM = 128;
constexpr int TSN = 128;
constexpr int TSK = 16;
constexpr int WPTM = 8;
constexpr int WPTN = 8;
constexpr int RTSM = TSM / WPTM;
constexpr int RTSN = TSN / WPTN;
constexpr int THREADS = RTSM * RTSN;
constexpr int BLOCKS = 2;

__device__ float4 load_quad(const float* matrix, int rows, int cols, int row, int col)
{
    float4 quad = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (row < rows && col < cols) {
        const float* from = matrix + row * cols + col;
        if (cols % 4 == 0) {
            quad = *reinterpret_cast<const float4*>(from);
        } else {
            quad.x = from[0];
            if (col + 1 < cols) quad.y = from[1];
            if (col + 2 < cols) quad.z = from[2];
            if (col + 3 < cols) quad.w = from[3];
        }
    }
    return quad;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
matmul(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    __shared__ __align__(16) float tileA[TSM][TSK];
    __shared__ __align__(16) float tileB[TSK][TSN];
    const int thread = threadIdx.x;
    const int x = thread % RTSN;
    const int y = thread / RTSN;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    float sum[WPTM][WPTN] = {};

    for (int k0 = 0; k0 < K; k0 += TSK) {
        for (int i = thread; i < TSM * TSK / 4; i += THREADS) {
            const int m = i / (TSK / 4);
            const int k = i % (TSK / 4) * 4;
            *reinterpret_cast<float4*>(&tileA[m][k]) = load_quad(A, M, K, row0 + m, k0 + k);
        }
        for (int i = thread; i < TSK * TSN / 4; i += THREADS) {
            const int k = i / (TSN / 4);
            const int n = i % (TSN / 4) * 4;
            *reinterpret_cast<float4*>(&tileB[k][n]) = load_quad(B, K, N, k0 + k, col0 + n);
        }
        __syncthreads();
        #pragma unroll 2
        for (int k = 0; k <= TSK; ++k) {
            float a[WPTM];
            float b[WPTN];
            for (int i = 0; i < WPTM; ++i) {
                a[i] = tileA[y + i * RTSM][k];
            }
            for (int j = 0; j < WPTN; ++j) {
                b[j] = tileB[k][x + j * RTSN];  // expect: OOB
            }
            for (int i = 0; i < WPTM; ++i) {
                for (int j = 0; j < WPTN; ++j) {
                    sum[i][j] += a[i] * b[j];
                }
            }
        }
        __syncthreads();
    }

    for (int i = 0; i < WPTM; ++i) {
        for (int j = 0; j < WPTN; ++j) {
            const int row = row0 + y + i * RTSM;
            const int col = col0 + x + j * RTSN;
            if (row < M && col < N) {
                C[row * N + col] = sum[i][j];
            }
        }
    }
}
