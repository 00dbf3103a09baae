// lanes_down_the_rows.cu: neighbouring lanes load four halves of different rows: a quarter of each sector.
// Entry:   matmul(const half A[M,K] in, const half B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(THREADS) grid=(cdiv(N, TSN), cdiv(M, TSM))

#include <cuda_fp16.h>

constexpr int TSM = 128;
constexpr int TSN = 128;
constexpr int TSK = 16;
constexpr int WPTM = 8;
constexpr int WPTN = 8;
constexpr int RTSM = TSM / WPTM;
constexpr int RTSN = TSN / WPTN;
constexpr int THREADS = RTSM * RTSN;
constexpr int BLOCKS = 2;

__device__ float4 load_quad(const half* matrix, int rows, int cols, int row, int col)
{
    float4 quad = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (row < rows && col < cols) {
        const half* from = matrix + row * cols + col;
        if (cols % 4 == 0) {
            const uint2 bits = *reinterpret_cast<const uint2*>(from);  // expect: PERF
            const float2 low = __half22float2(*reinterpret_cast<const half2*>(&bits.x));
            const float2 high = __half22float2(*reinterpret_cast<const half2*>(&bits.y));
            quad = make_float4(low.x, low.y, high.x, high.y);
        } else {
            quad.x = __half2float(from[0]);
            if (col + 1 < cols) quad.y = __half2float(from[1]);
            if (col + 2 < cols) quad.z = __half2float(from[2]);
            if (col + 3 < cols) quad.w = __half2float(from[3]);
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

__device__ int place(int k, int m) { return m ^ k / 4 % 4 * 8; }

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
matmul(const half* __restrict__ A, const half* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    __shared__ __align__(16) float tileA[TSK][TSM];
    __shared__ __align__(16) float tileB[TSK][TSN];
    const int thread = threadIdx.x;
    const int x = thread % RTSN * 4;
    const int y = thread / RTSN * 4;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    float sum[WPTM][WPTN] = {};

    for (int k0 = 0; k0 < K; k0 += TSK) {
        for (int i = thread; i < TSM * TSK / 4; i += THREADS) {
            const int m = i % TSM;
            const int k = i / TSM * 4;
            const float4 quad = load_quad(A, M, K, row0 + m, k0 + k);
            tileA[k][place(k, m)] = quad.x;
            tileA[k + 1][place(k, m)] = quad.y;
            tileA[k + 2][place(k, m)] = quad.z;
            tileA[k + 3][place(k, m)] = quad.w;
        }
        for (int i = thread; i < TSK * TSN / 4; i += THREADS) {
            const int k = i / (TSN / 4);
            const int n = i % (TSN / 4) * 4;
            *reinterpret_cast<float4*>(&tileB[k][n]) = load_quad(B, K, N, k0 + k, col0 + n);
        }
        __syncthreads();
        #pragma unroll 8
        for (int k = 0; k < TSK; ++k) {
            float a[WPTM];
            float b[WPTN];
            for (int i = 0; i < WPTM; i += 4) {
                get_quad(&a[i], &tileA[k][place(k, y + i * RTSM)]);
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
