// turned_the_wrong_way.cu: the four floats of a float4 go into one row of the tile, over its neighbours.
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
constexpr int PAD = 4;

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

__device__ void store_quad(float* matrix, int rows, int cols, int row, int col, float4 quad)
{
    if (row < rows && col < cols) {
        float* to = matrix + row * cols + col;
        if (cols % 4 == 0) {
            *reinterpret_cast<float4*>(to) = quad;
        } else {
            to[0] = quad.x;
            if (col + 1 < cols) to[1] = quad.y;
            if (col + 2 < cols) to[2] = quad.z;
            if (col + 3 < cols) to[3] = quad.w;
        }
    }
}

__device__ void get_quad(float* to, const float* from)
{
    const float4 quad = *reinterpret_cast<const float4*>(from);
    to[0] = quad.x;
    to[1] = quad.y;
    to[2] = quad.z;
    to[3] = quad.w;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
matmul(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    __shared__ __align__(16) float tileA[TSK][TSM + PAD];
    __shared__ __align__(16) float tileB[TSK][TSN];
    const int thread = threadIdx.x;
    const int x = thread % RTSN * 4;
    const int y = thread / RTSN * 4;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    float sum[WPTM][WPTN] = {};

    for (int k0 = 0; k0 < K; k0 += TSK) {
        for (int i = thread; i < TSM * TSK / 4; i += THREADS) {
            const int m = i / 2 % TSM;
            const int k = (i / 2 / TSM * 2 + i % 2) * 4;
            const float4 quad = load_quad(A, M, K, row0 + m, k0 + k);
            tileA[k][m] = quad.x;
            tileA[k][m + 1] = quad.y;  // expect: RACE
            tileA[k + 2][m] = quad.z;
            tileA[k + 3][m] = quad.w;
        }
        for (int i = thread; i < TSK * TSN / 4; i += THREADS) {
            const int k = i / (TSN / 4);
            const int n = i % (TSN / 4) * 4;
            *reinterpret_cast<float4*>(&tileB[k][n]) = load_quad(B, K, N, k0 + k, col0 + n);
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < TSK; ++k) {
            float a[WPTM];
            float b[WPTN];
            for (int i = 0; i < WPTM; i += 4) {
                get_quad(&a[i], &tileA[k][y + i * RTSM]);
            }
            for (int j = 0; j < WPTN; j += 4) {
                get_quad(&b[j], &tileB[k][x + j * RTSN]);
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
        for (int j = 0; j < WPTN; j += 4) {
            const float4 quad = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            store_quad(C, M, N, row0 + y + i / 4 * 4 * RTSM + i % 4, col0 + x + j * RTSN, quad);
        }
    }
}
