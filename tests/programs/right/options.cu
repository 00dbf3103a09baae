// The compiler's options and the program's arguments.
// options: -DFACTOR=3 -O2 -std=c++20
// arguments: one "two words" --three
#include <cstdio>

template <int N>
    requires(N > 0)
__global__ void times(int* x)
{
    *x *= N;
}

int main(int argc, char** argv)
{
    int* x;
    cudaMallocManaged(&x, sizeof(int));
    *x = 5;
    times<FACTOR><<<1, 1>>>(x);
    cudaDeviceSynchronize();
    printf("%d", *x);
    for (int k = 1; k < argc; k++) printf(" [%s]", argv[k]);
    printf("\n");
    cudaFree(x);
    return 0;
}
/* prints
15 [one] [two words] [--three]
*/
