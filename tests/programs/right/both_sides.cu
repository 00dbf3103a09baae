// The host and a kernel count in managed memory at once, by atomics of the whole system.
#include <cstdio>

__global__ void count(int* x) { atomicAdd_system(x, 1); }

int main()
{
    int* x;
    cudaMallocManaged(&x, sizeof(int));
    *x = 0;
    count<<<4, 64>>>(x);
    for (int k = 0; k < 100; k++) __atomic_fetch_add(x, 1, __ATOMIC_RELAXED);
    cudaDeviceSynchronize();
    printf("%d\n", *x);
    cudaFree(x);
    return 0;
}
/* prints
356
*/
