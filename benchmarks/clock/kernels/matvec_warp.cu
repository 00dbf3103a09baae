// matvec_warp.cu: matrix times vector, a warp a row
// Entry:   matvec(const float A[M,K] in, const float x[K] in, float y[M] out, int M, int K)
// Launch:  matvec block=(32, 4) grid=(cdiv(M, 4))

extern "C" __global__ void matvec(const float* __restrict__ A, const float* __restrict__ x, float* __restrict__ y, int M, int K)
{
    const int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= M) return;
    float sum = 0.0f;
    for (int k = threadIdx.x; k < K; k += 32) sum = fmaf(A[(size_t)row * K + k], x[k], sum);
    for (int step = 16; step > 0; step >>= 1) sum += __shfl_down_sync(0xffffffff, sum, step);
    if (threadIdx.x == 0) y[row] = sum;
}
