// sgemm_64.cu: a product by tiles of 64 x 64 x 8, four by four a thread
// Entry:   sgemm(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  sgemm block=(16, 16) grid=(cdiv(N, 64), cdiv(M, 64))

extern "C" __global__ __launch_bounds__(256) void sgemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    __shared__ float a[8][64 + 4], b[8][64];
    const int t = threadIdx.y * 16 + threadIdx.x, row0 = blockIdx.y * 64, col0 = blockIdx.x * 64;
    float sum[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        for (int e = t; e < 512; e += 256) {
            const int r = e / 8, k = e % 8;
            a[k][r] = row0 + r < M && k0 + k < K ? A[(row0 + r) * K + k0 + k] : 0.0f;
            const int kb = e / 64, c = e % 64;
            b[kb][c] = k0 + kb < K && col0 + c < N ? B[(k0 + kb) * N + col0 + c] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            float x[4], y[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) x[i] = a[k][threadIdx.y * 4 + i];
#pragma unroll
            for (int j = 0; j < 4; ++j) y[j] = b[k][threadIdx.x + 16 * j];
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) sum[i][j] += x[i] * y[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            const int r = row0 + threadIdx.y * 4 + i, c = col0 + threadIdx.x + 16 * j;
            if (r < M && c < N) C[r * N + c] = sum[i][j];
        }
}
