// spmv_csr_vector.cu: sparse matrix times vector, a warp a row, rows handed out in strides
// Entry:   spmv(const int start[M+1] in, const int column[NNZ] in, const float value[NNZ] in, const float x[K] in, float y[M] out, int M, int K, int NNZ)
// Launch:  spmv block=(256) grid=(min(cdiv(M, 8), 1056))

template <class Number>
__device__ __forceinline__ Number over_warp(Number sum)
{
    for (int away = 16; away > 0; away /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, away);
    return sum;
}

extern "C" __global__ void spmv(const int* __restrict__ start, const int* __restrict__ column, const float* __restrict__ value, const float* __restrict__ x, float* __restrict__ y, int M, int K, int NNZ)
{
    const int lane = threadIdx.x % 32;
    const int all = gridDim.x * (blockDim.x / 32);
    for (int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32; row < M; row += all) {
        const int end = __ldg(start + row + 1);
        float sum = 0.0f;
        for (int k = __ldg(start + row) + lane; k < end; k += 32) sum = fmaf(value[k], __ldg(x + column[k]), sum);
        sum = over_warp(sum);
        if (lane == 0) y[row] = sum;
    }
}
