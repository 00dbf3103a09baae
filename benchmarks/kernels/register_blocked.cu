// register_blocked.cu: a 64 x 64 tile per block of 64 threads, 8 x 8 results per thread; sizes are multiples of 64 and 8.
constexpr int BM = 64, BN = 64, BK = 8, TM = 8, TN = 8;

extern "C" __global__ void __launch_bounds__(64) matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float tileA[BK][BM], tileB[BK][BN];
    const int thread = threadIdx.x;
    const int row = thread / (BN / TN) * TM, col = thread % (BN / TN) * TN;
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;
    float sums[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
        for (int m = thread / 2; m < BM; m += 32) {
            const float4 part = *(const float4*)&A[m * K + k0 + thread % 2 * 4];
            tileA[thread % 2 * 4 + 0][m] = part.x;
            tileA[thread % 2 * 4 + 1][m] = part.y;
            tileA[thread % 2 * 4 + 2][m] = part.z;
            tileA[thread % 2 * 4 + 3][m] = part.w;
        }
#pragma unroll
        for (int k = thread / 16; k < BK; k += 4)
            *(float4*)&tileB[k][thread % 16 * 4] = *(const float4*)&B[(k0 + k) * N + thread % 16 * 4];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k++)
#pragma unroll
            for (int m = 0; m < TM; m++)
#pragma unroll
                for (int n = 0; n < TN; n++) sums[m][n] += tileA[k][row + m] * tileB[k][col + n];
        __syncthreads();
    }
#pragma unroll
    for (int m = 0; m < TM; m++)
#pragma unroll
        for (int n = 0; n < TN; n += 4)
            *(float4*)&C[(row + m) * N + col + n] = make_float4(sums[m][n], sums[m][n + 1], sums[m][n + 2], sums[m][n + 3]);
}
