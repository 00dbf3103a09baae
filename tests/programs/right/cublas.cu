// cuBLAS: products, batches, vectors, scalars on either side.
// options: -lcublas
#include <cstdio>
#include <cublas_v2.h>

int main()
{
    const int m = 3, n = 2, k = 4;
    float a[k * m], b[n * k], c[n * m], alpha = 2, beta = 0, dot, norm;
    for (int i = 0; i < m * k; i++) a[i] = i;
    for (int i = 0; i < k * n; i++) b[i] = i % 3;
    float *da, *db, *dc;
    cudaMalloc(&da, sizeof a);
    cudaMalloc(&db, sizeof b);
    cudaMalloc(&dc, sizeof c);
    cublasHandle_t handle;
    printf("%s\n", cublasGetStatusName(cublasCreate(&handle)));
    cublasSetMatrix(m, k, sizeof(float), a, m, da, m);
    cublasSetVector(k * n, sizeof(float), b, 1, db, 1);
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &alpha, da, m, db, k, &beta, dc, m);
    cublasGetMatrix(m, n, sizeof(float), dc, m, c, m);
    for (float v : c) printf("%g ", v);
    printf("\n");
    cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &alpha, da, k, db, k, &beta, dc, m);
    cublasGetMatrix(m, n, sizeof(float), dc, m, c, m);
    for (float v : c) printf("%g ", v);
    printf("\n");
    cublasSgemv(handle, CUBLAS_OP_N, m, k, &alpha, da, m, db, 1, &beta, dc, 2);
    cublasGetVector(m, sizeof(float), dc, 2, c, 1);
    printf("%g %g %g\n", c[0], c[1], c[2]);
    cublasSaxpy(handle, 3, &alpha, da, 1, dc, 2);
    cublasSdot(handle, 4, da, 1, db, 1, &dot);
    cublasSnrm2(handle, 4, da, 2, &norm);
    int largest;
    cublasIsamax(handle, 12, da, 1, &largest);
    printf("%g %g %d\n", dot, norm * norm, largest);
    cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE);
    cublasSdot(handle, 4, da, 1, db, 1, dc);
    cublasSscal(handle, 2, dc, da, 1);
    cudaMemcpy(a, da, 2 * sizeof(float), cudaMemcpyDeviceToHost);
    printf("%g %g\n", a[0], a[1]);
    cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST);
    double one = 1, zero = 0, x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, *dx, *dy;
    cudaMalloc(&dx, sizeof x);
    cudaMalloc(&dy, sizeof x);
    cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
    cublasDgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, dx, 2, 4, dx, 2, 0, &zero, dy, 2, 4, 2);
    cudaMemcpy(x, dy, sizeof x, cudaMemcpyDeviceToHost);
    for (double v : x) printf("%g ", v);
    printf("%s\n", cublasGetStatusName(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &alpha, da, 1, db, 4, &beta, dc, 4)));
    cublasDestroy(handle);
    for (float* p : {da, db, dc}) cudaFree(p);
    cudaFree(dx);
    cudaFree(dy);
    return 0;
}
/* prints
CUBLAS_STATUS_SUCCESS
30 36 42 30 38 46 
10 34 58 10 42 74 
30 36 42
5 56 12
0 5
7 10 15 22 19 22 43 50 CUBLAS_STATUS_INVALID_VALUE
*/
