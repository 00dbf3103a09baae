// right_flat.cu: the matrices as one long vector.
// Entry:   matrix_add(const float A[M,N] in, const float B[M,N] in, float C[M,N] out, int M, int N)
// Launch:  matrix_add block=(256) grid=(cdiv(M * N, 256))

// expect: AC

extern "C" __global__ void matrix_add(const float* A, const float* B, float* C, int M, int N)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < M * N) {
        C[i] = A[i] + B[i];
    }
}
