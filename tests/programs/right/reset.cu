// cudaDeviceReset gives everything back.
#include <cstdio>

int main()
{
    int* x;
    size_t before, during, after, total;
    cudaMemGetInfo(&before, &total);
    cudaMalloc(&x, 1 << 20);
    cudaMemGetInfo(&during, &total);
    printf("%zu\n", before - during);
    cudaDeviceReset();
    cudaMemGetInfo(&after, &total);
    printf("%d\n", before == after);
    return 0;
}
/* prints
1048576
1
*/
