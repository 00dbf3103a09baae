// row_for_each_lane.cu: each lane has a row of its own, so lanes wait for the longest row, and B is read down columns.
// Entry:   spmm(const int row_start[M+1] in, const int column[NNZ] in, const float value[NNZ] in,
//               const float B[K,N] in, float C[M,N] out, int M, int N, int K, int NNZ)
// Launch:  spmm block=(32) grid=(cdiv(M, 32), N)

extern "C" __global__ void spmm(const int* __restrict__ row_start, const int* __restrict__ column,
                                const float* __restrict__ value, const float* __restrict__ B,
                                float* __restrict__ C, int M, int N, int K, int NNZ)
{
    const int row = blockIdx.x * 32 + threadIdx.x;
    const int col = blockIdx.y;
    if (row < M) {
        float sum = 0.0f;
        for (int e = row_start[row]; e < row_start[row + 1]; ++e) {  // expect: PERF
            sum += value[e] * B[column[e] * N + col];
        }
        C[row * N + col] = sum;
    }
}
