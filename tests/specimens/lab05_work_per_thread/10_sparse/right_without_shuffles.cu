// right_without_shuffles.cu: all lanes read the same element of A: a broadcast needs no shuffle.
// Entry:   spmm(const int row_start[M+1] in, const int column[NNZ] in, const float value[NNZ] in,
//               const float B[K,N] in, float C[M,N] out, int M, int N, int K, int NNZ)
// Launch:  spmm block=(32, ROWS) grid=(cdiv(N, 32 * WPT), cdiv(M, ROWS))

// expect: AC

constexpr int ROWS = 4;
constexpr int WPT = 4;

extern "C" __global__ void spmm(const int* __restrict__ row_start, const int* __restrict__ column,
                                const float* __restrict__ value, const float* __restrict__ B,
                                float* __restrict__ C, int M, int N, int K, int NNZ)
{
    const int lane = threadIdx.x;
    const int row = blockIdx.y * ROWS + threadIdx.y;
    const int col0 = blockIdx.x * 32 * WPT + lane;
    if (row >= M) {
        return;
    }
    const int end = row_start[row + 1];
    float sum[WPT] = {};

    for (int start = row_start[row]; start < end; start += 32) {
        for (int i = start; i < min(start + 32, end); ++i) {
            for (int j = 0; j < WPT; ++j) {
                sum[j] += value[i] * B[column[i] * N + min(col0 + j * 32, N - 1)];
            }
        }
    }

    #pragma unroll
    for (int j = 0; j < WPT; ++j) {
        if (col0 + j * 32 < N) {
            C[row * N + col0 + j * 32] = sum[j];
        }
    }
}
