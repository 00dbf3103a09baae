// last_column_forgotten.cu: add_product leaves the fourth column out.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(TILE, RTS) grid=(cdiv(N, 4 * TILE), cdiv(M, TILE))

// expect: WA

constexpr int TILE = 32;
constexpr int WPT = 8;
constexpr int RTS = TILE / WPT;

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

__device__ void add_product(float4& sum, float a, float4 b)
{
    sum.x += a * b.x;
    sum.y += a * b.y;
    sum.z += a * b.z;
}

extern "C" __global__ void matmul(const float* __restrict__ A, const float* __restrict__ B,
                                  float* __restrict__ C, int M, int N, int K)
{
    __shared__ float4 tileA[TILE][TILE / 4];
    __shared__ float4 tileB[TILE][TILE];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row0 = blockIdx.y * TILE;
    const int col = (blockIdx.x * TILE + x) * 4;
    float4 sum[WPT] = {};

    for (int k0 = 0; k0 < K; k0 += TILE) {
        for (int i = y * TILE + x; i < TILE * TILE / 4; i += RTS * TILE) {
            const int m = i / (TILE / 4);
            const int quad = i % (TILE / 4);
            tileA[m][quad] = load_quad(A, M, K, row0 + m, k0 + quad * 4);
        }
        for (int i = y; i < TILE; i += RTS) {
            tileB[i][x] = load_quad(B, K, N, k0 + i, col);
        }
        __syncthreads();
        for (int k = 0; k < TILE; k += 4) {
            const float4 b0 = tileB[k][x];
            const float4 b1 = tileB[k + 1][x];
            const float4 b2 = tileB[k + 2][x];
            const float4 b3 = tileB[k + 3][x];
            for (int w = 0; w < WPT; ++w) {
                const float4 a = tileA[y + w * RTS][k / 4];
                add_product(sum[w], a.x, b0);
                add_product(sum[w], a.y, b1);
                add_product(sum[w], a.z, b2);
                add_product(sum[w], a.w, b3);
            }
        }
        __syncthreads();
    }

    for (int w = 0; w < WPT; ++w) {
        store_quad(C, M, N, row0 + y + w * RTS, col, sum[w]);
    }
}
