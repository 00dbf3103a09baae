// A product of half matrices by wmma.
#include <cstdio>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

__global__ void product(const half* a, const half* b, float* c)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}

int main()
{
    half a[256], b[256], *da, *db;
    float c[256], *dc;
    for (int i = 0; i < 256; i++) a[i] = __float2half(i % 5), b[i] = __float2half(i % 3);
    cudaMalloc(&da, sizeof a);
    cudaMalloc(&db, sizeof b);
    cudaMalloc(&dc, sizeof c);
    cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice);
    cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice);
    product<<<1, 32>>>(da, db, dc);
    cudaMemcpy(c, dc, sizeof c, cudaMemcpyDeviceToHost);
    float right = 0;
    for (int k = 0; k < 16; k++) right += (3 * 16 + k) % 5 * ((7 * 16 + k) % 3);
    printf("%d\n", c[3 * 16 + 7] == right);
    cudaFree(da);
    cudaFree(db);
    cudaFree(dc);
    return 0;
}
/* prints
1
*/
