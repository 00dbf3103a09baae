// 02_alpha_beta.cu: D = alpha * A * B + beta * C, the whole of what BLAS calls GEMM.
// Idea:    the two factors cost one pass over C and D, not one per k: they are applied to the finished sum.
//          As in BLAS, beta = 0 means that C is not read, so C may then hold anything, NaN included.
// From:    01_naive.cu
// Limits:  as 01_naive.cu. A branch, not a step of the ladder: it takes another operand.
// Entry:   gemm(const float A[M,K] in, const float B[K,N] in, const float C[M,N] in, float D[M,N] out,
//               int M, int N, int K, float alpha, float beta)
// Launch:  gemm block=(TILE, TILE) grid=(cdiv(N, TILE), cdiv(M, TILE))

constexpr int TILE = 16;  // a block computes TILE x TILE elements of D

static_assert(TILE * TILE <= 1024, "one thread per element of the tile, and a block has at most 1024");

extern "C" __global__ void gemm(const float* __restrict__ A, const float* __restrict__ B,
                                const float* __restrict__ C, float* __restrict__ D, int M, int N, int K,
                                float alpha, float beta)
{
    const int row = blockIdx.y * TILE + threadIdx.y;
    const int col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;

    // BEGIN SOLUTION: the loop of 01_naive.cu, then alpha, and beta * C unless beta is 0 (about 10 lines)
    // END SOLUTION
}
