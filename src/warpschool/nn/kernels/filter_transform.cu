// filter_transform.cu: U = G g G^T for @NAME@, written from the exact matrices.
// Entry:   filter_transform(const float w[F,C,FILTER,FILTER] in, float U[SIDE*SIDE,C,F] out, int F, int C)
// Launch:  filter_transform block=(THREADS) grid=(cdiv(F, THREADS), C)

@COMMON@

extern "C" __global__ void __launch_bounds__(THREADS)
filter_transform(const float* __restrict__ w, float* __restrict__ U, int F, int C)
{
    const int f = blockIdx.x * THREADS + threadIdx.x;
    const int c = blockIdx.y;
    if (f >= F) return;
    const float* from = w + (static_cast<size_t>(f) * C + c) * FILTER * FILTER;
    float middle[SIDE][FILTER];
    #pragma unroll
    for (int s = 0; s < FILTER; ++s) {
        float column[FILTER];
        float numbers[SIDE];
        #pragma unroll
        for (int r = 0; r < FILTER; ++r) column[r] = from[r * FILTER + s];
        transform(numbers, column);
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) middle[i][s] = numbers[i];
    }
    float* to = U + static_cast<size_t>(c) * F + f;
    const size_t position = static_cast<size_t>(C) * F;
    #pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        float numbers[SIDE];
        transform(numbers, middle[i]);
        #pragma unroll
        for (int j = 0; j < SIDE; ++j) to[(i * SIDE + j) * position] = numbers[j];
    }
}
