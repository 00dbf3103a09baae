// matvec_thread.cu: matrix times vector, a thread a row: every load its own line
// Entry:   matvec(const float A[M,K] in, const float x[K] in, float y[M] out, int M, int K)
// Launch:  matvec block=(128) grid=(cdiv(M, 128))

extern "C" __global__ void matvec(const float* __restrict__ A, const float* __restrict__ x, float* __restrict__ y, int M, int K)
{
    const int row = blockIdx.x * 128 + threadIdx.x;
    if (row >= M) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[(size_t)row * K + k] * x[k];
    y[row] = sum;
}
