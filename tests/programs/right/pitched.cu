// Pitched memory, copies and settings of rectangles.
#include <cstdio>

__global__ void transpose_marks(char* rows, size_t pitch, int width, int height)
{
    int x = threadIdx.x, y = blockIdx.x;
    if (x < width && y < height) ((float*)(rows + y * pitch))[x] = 10 * y + x;
}

int main()
{
    const int width = 7, height = 5;
    char* rows;
    size_t pitch;
    cudaMallocPitch(&rows, &pitch, width * sizeof(float), height);
    printf("%d\n", pitch >= width * sizeof(float) && pitch % 32 == 0);
    cudaMemset2D(rows, pitch, 0, width * sizeof(float), height);
    transpose_marks<<<height, 32>>>(rows, pitch, width, height);
    float host[height][width], part[2][3];
    cudaMemcpy2D(host, sizeof host[0], rows, pitch, sizeof host[0], height, cudaMemcpyDeviceToHost);
    printf("%g %g %g\n", host[0][0], host[2][3], host[4][6]);
    cudaMemcpy2D(part, sizeof part[0], rows + pitch + 2 * sizeof(float), pitch, sizeof part[0], 2, cudaMemcpyDeviceToHost);
    printf("%g %g\n", part[0][0], part[1][2]);
    printf("%s\n", cudaGetErrorName(cudaMemcpy2D(host, 4, rows, pitch, sizeof host[0], height, cudaMemcpyDeviceToHost)));
    cudaFree(rows);
    return 0;
}
/* prints
1
0 23 46
12 24
cudaErrorInvalidPitchValue
*/
