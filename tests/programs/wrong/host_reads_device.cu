// The host follows a device pointer. Quick.
// finds: host-access 13
// exit: 139
#include <cstdio>

__global__ void set(int* x) { *x = 7; }

int main()
{
    int* x;
    cudaMalloc(&x, sizeof(int));
    set<<<1, 1>>>(x);
    int value = *x;
    printf("%d\n", value);
    return 0;
}
