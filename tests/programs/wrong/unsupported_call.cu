// Calls that the simulator lacks: they fail by their names, and the program goes on.
// finds: unsupported-call 11
// finds: unsupported-call 13
#include <cstdio>

int main()
{
    int* x;
    cudaMalloc(&x, 4);
    cudaIpcMemHandle_t handle;
    cudaError_t error = cudaIpcGetMemHandle(&handle, x);
    cudaUserObject_t object;
    cudaError_t other = cudaUserObjectCreate(&object, x, nullptr, 1, cudaUserObjectNoDestructorSync);
    printf("%s %s\n", cudaGetErrorName(error), cudaGetErrorName(other));
    cudaFree(x);
    return 0;
}
/* prints
cudaErrorNotSupported cudaErrorNotSupported
*/
