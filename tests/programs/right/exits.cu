// exit() deep inside, with what atexit and destructors still do.
// exit: 7
#include <cstdio>
#include <cstdlib>

__global__ void set(int* x) { *x = 42; }
struct Buffer {
    int* x = nullptr;
    ~Buffer()
    {
        int host;
        cudaMemcpy(&host, x, sizeof host, cudaMemcpyDeviceToHost);
        printf("destructor %d\n", host);
        cudaFree(x);
    }
} buffer;

void inner() { exit(7); }

int main()
{
    atexit([] { printf("atexit\n"); });
    cudaMalloc(&buffer.x, sizeof(int));
    set<<<1, 1>>>(buffer.x);
    inner();
}
/* prints
atexit
destructor 42
*/
