// sums_not_cleared.cu: keeps the half sums after they were promoted, and adds them again.
// Entry:   matmul(const half A[M,K] in, const half B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(THREADS) grid=(cdiv(N, TSN), cdiv(M, TSM))
//
// expect: WA

#include <cuda_fp16.h>

constexpr int TSM = 128;
constexpr int TSN = 128;
constexpr int TSK = 32;
constexpr int PROMOTE = 16;
constexpr int WPTM = 8;
constexpr int WPTN = 8;
constexpr int RTSM = TSM / WPTM;
constexpr int RTSN = TSN / WPTN;
constexpr int THREADS = RTSM * RTSN;
constexpr int BLOCKS = 2;

__device__ half2 as_half2(unsigned word) { return *reinterpret_cast<const half2*>(&word); }

__device__ uint2 load_quad(const half* matrix, int rows, int cols, int row, int col)
{
    uint2 quad = make_uint2(0, 0);
    if (row < rows && col < cols) {
        const half* from = matrix + row * cols + col;
        if (cols % 4 == 0) {
            quad = *reinterpret_cast<const uint2*>(from);
        } else {
            const unsigned short* bits = reinterpret_cast<const unsigned short*>(from);
            quad.x = bits[0];
            if (col + 1 < cols) quad.x |= bits[1] << 16;
            if (col + 2 < cols) quad.y = bits[2];
            if (col + 3 < cols) quad.y |= bits[3] << 16;
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

__device__ int place(int k, int m) { return m ^ k / 4 % 4 * 16; }

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
matmul(const half* __restrict__ A, const half* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    __shared__ __align__(16) half tileA[TSK][TSM];
    __shared__ __align__(16) half tileB[TSK][TSN];
    const int thread = threadIdx.x;
    const int x = thread % RTSN * 4;
    const int y = thread / RTSN * WPTM;
    const int row0 = blockIdx.y * TSM;
    const int col0 = blockIdx.x * TSN;
    float sum[WPTM][WPTN] = {};
    half2 part[WPTM][WPTN / 2] = {};

    for (int k0 = 0; k0 < K; k0 += TSK) {
        for (int i = thread; i < TSM * TSK / 8; i += THREADS) {
            const int m = i / 4 % (TSM / 2) * 2;
            const int k = (i / 4 / (TSM / 2) * 4 + i % 4) * 4;
            const uint2 upper = load_quad(A, M, K, row0 + m, k0 + k);
            const uint2 lower = load_quad(A, M, K, row0 + m + 1, k0 + k);
            unsigned* to = reinterpret_cast<unsigned*>(&tileA[k][place(k, m)]);
            to[0] = __byte_perm(upper.x, lower.x, 0x5410);
            to[TSM / 2] = __byte_perm(upper.x, lower.x, 0x7632);
            to[TSM / 2 * 2] = __byte_perm(upper.y, lower.y, 0x5410);
            to[TSM / 2 * 3] = __byte_perm(upper.y, lower.y, 0x7632);
        }
        for (int i = thread; i < TSK * TSN / 4; i += THREADS) {
            const int k = i / (TSN / 4);
            const int n = i % (TSN / 4) * 4;
            *reinterpret_cast<uint2*>(&tileB[k][n]) = load_quad(B, K, N, k0 + k, col0 + n);
        }
        __syncthreads();
        for (int k1 = 0; k1 < TSK; k1 += PROMOTE) {
            #pragma unroll 4
            for (int k = k1; k < k1 + PROMOTE; ++k) {
                const uint4 column = *reinterpret_cast<const uint4*>(&tileA[k][place(k, y)]);
                const unsigned a[WPTM / 2] = {column.x, column.y, column.z, column.w};
                half2 b[WPTN / 2];
                for (int j = 0; j < WPTN / 2; j += 2) {
                    const uint2 quad = *reinterpret_cast<const uint2*>(&tileB[k][x + j * 2 * RTSN]);
                    b[j] = as_half2(quad.x);
                    b[j + 1] = as_half2(quad.y);
                }
                for (int i = 0; i < WPTM; ++i) {
                    const half2 rows = as_half2(a[i / 2]);
                    const half2 both = i % 2 == 0 ? __low2half2(rows) : __high2half2(rows);
                    for (int j = 0; j < WPTN / 2; ++j) {
                        part[i][j] = __hfma2(both, b[j], part[i][j]);
                    }
                }
            }
            for (int i = 0; i < WPTM; ++i) {
                for (int j = 0; j < WPTN / 2; ++j) {
                    sum[i][2 * j] += __low2float(part[i][j]);
                    sum[i][2 * j + 1] += __high2float(part[i][j]);
                }
            }
        }
        __syncthreads();
    }

    for (int i = 0; i < WPTM; ++i) {
        for (int j = 0; j < WPTN; j += 4) {
            const float4 quad = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            store_quad(C, M, N, row0 + y + i, col0 + x + j * RTSN, quad);
        }
    }
}
