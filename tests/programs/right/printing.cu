// What kernels print comes when the host waits, before what it prints then. Quick.
#include <cstdio>

__global__ void say(const char* what, int n) { printf("%s: block %d thread %d of %d, %.2f\n", "kernel", blockIdx.x, threadIdx.x, n, n * 0.5); }

int main()
{
    printf("before\n");
    say<<<2, 2>>>(nullptr, 3);
    cudaDeviceSynchronize();
    printf("after\n");
    return 0;
}
/* prints
before
kernel: block 0 thread 0 of 3, 1.50
kernel: block 0 thread 1 of 3, 1.50
kernel: block 1 thread 0 of 3, 1.50
kernel: block 1 thread 1 of 3, 1.50
after
*/
