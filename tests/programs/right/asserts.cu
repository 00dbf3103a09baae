// A failed assert ends the kernel; the device is lost.
// finds: assert
// exit: 1
#include <cassert>
#include <cstdio>

__global__ void check(int n) { assert(threadIdx.x < n); }

int main()
{
    check<<<1, 32>>>(32);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    check<<<1, 32>>>(31);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    return 0;
}
/* prints
cudaSuccess
cudaErrorAssert
*/
