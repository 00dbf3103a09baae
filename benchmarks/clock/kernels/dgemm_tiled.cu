// dgemm_tiled.cu: a product of doubles, tiles of 16 x 16
// Entry:   dgemm(const double A[M,K] in, const double B[K,N] in, double C[M,N] out, int M, int N, int K)
// Launch:  dgemm block=(16, 16) grid=(cdiv(N, 16), cdiv(M, 16))

extern "C" __global__ void dgemm(const double* __restrict__ A, const double* __restrict__ B, double* __restrict__ C, int M, int N, int K)
{
    __shared__ double a[16][16], b[16][16];
    const int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
    double sum = 0.0;
    for (int k0 = 0; k0 < K; k0 += 16) {
        a[threadIdx.y][threadIdx.x] = r < M && k0 + threadIdx.x < K ? A[r * K + k0 + threadIdx.x] : 0.0;
        b[threadIdx.y][threadIdx.x] = k0 + threadIdx.y < K && c < N ? B[(k0 + threadIdx.y) * N + c] : 0.0;
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += a[threadIdx.y][k] * b[k][threadIdx.x];
        __syncthreads();
    }
    if (r < M && c < N) C[r * N + c] = sum;
}
