// Calls fail, and the program does not look at what they return. The first is told. Quick.
// finds: ignored-error 9
#include <cstdio>

int main()
{
    float *x = nullptr, *y = nullptr;
    cudaMalloc(&x, 1024);
    cudaMalloc(&y, 40ull << 30);
    cudaSetDevice(3);
    cudaMemset(x, 0, 1024);
    cudaFree(x);
    cudaFree(y);
    printf("done\n");
    return 0;
}
/* prints
done
*/
