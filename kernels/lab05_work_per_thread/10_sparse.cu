// 10_sparse.cu: C = A * B, where A has few elements that are not zero and stores only those (CSR).
// Idea:    pruning sets most weights of a network to zero. Row m of A is the elements row_start[m] to
//          row_start[m + 1] of `value`, each in the column that `column` names. A warp computes a segment of one
//          row of C: its lanes lie along B's rows, so they share all elements of A, never part ways, and read B
//          without waste. Each lane loads one element of A, and the warp hands them round by shuffles.
// Limits:  two operations for every four bytes of B, which comes from the L2 cache again for every row: a dense
//          product wins where more than a tenth of A is left (4096 x 4096 on an H200). A branch: A is no array.
// Entry:   spmm(const int row_start[M+1] in, const int column[NNZ] in, const float value[NNZ] in,
//               const float B[K,N] in, float C[M,N] out, int M, int N, int K, int NNZ)
// Launch:  spmm block=(32, ROWS) grid=(cdiv(N, 32 * WPT), cdiv(M, ROWS))

constexpr int ROWS = 4;  // rows of C in a block: one warp each
constexpr int WPT = 4;   // work per thread: columns of C, 32 apart

static_assert(32 * ROWS <= 1024, "a block has at most 1024 threads");

extern "C" __global__ void spmm(const int* __restrict__ row_start, const int* __restrict__ column,
                                const float* __restrict__ value, const float* __restrict__ B,
                                float* __restrict__ C, int M, int N, int K, int NNZ)
{
    const int lane = threadIdx.x;
    const int row = blockIdx.y * ROWS + threadIdx.y;
    const int col0 = blockIdx.x * 32 * WPT + lane;
    if (row >= M) {
        return;  // the whole warp: there is no barrier to wait at
    }
    const int end = row_start[row + 1];
    float sum[WPT] = {};

    for (int start = row_start[row]; start < end; start += 32) {
        // BEGIN SOLUTION: each lane loads one element; for each of them, all lanes add its products (about 13 lines)
        // END SOLUTION
    }

    #pragma unroll
    for (int j = 0; j < WPT; ++j) {
        if (col0 + j * 32 < N) {
            C[row * N + col0 + j * 32] = sum[j];
        }
    }
}
