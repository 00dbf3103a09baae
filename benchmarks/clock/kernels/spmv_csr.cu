// spmv_csr.cu: sparse matrix times vector, a thread a row
// Entry:   spmv(const int start[M+1] in, const int column[NNZ] in, const float value[NNZ] in, const float x[K] in, float y[M] out, int M, int K, int NNZ)
// Launch:  spmv block=(256) grid=(cdiv(M, 256))

extern "C" __global__ void spmv(const int* __restrict__ start, const int* __restrict__ column, const float* __restrict__ value, const float* __restrict__ x, float* __restrict__ y, int M, int K, int NNZ)
{
    const int row = blockIdx.x * 256 + threadIdx.x;
    if (row >= M) return;
    float sum = 0.0f;
    for (int k = start[row]; k < start[row + 1]; ++k) sum += value[k] * x[column[k]];
    y[row] = sum;
}
