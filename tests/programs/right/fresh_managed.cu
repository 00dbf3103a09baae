// Managed and pinned memory begins as zeros, as it does in practice: a flag that nobody cleared is not set. Quick.
#include <cstdio>

__global__ void look(const int* x, int n, bool* wrong)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] != i) *wrong = true;
}

int main()
{
    const int n = 1000;
    bool* wrong;
    int *x, *pinned;
    cudaMallocManaged(&wrong, sizeof(bool));
    cudaMallocManaged(&x, n * sizeof(int));
    cudaMallocHost(&pinned, n * sizeof(int));
    int set = 0;
    for (int i = 0; i < n; i++) set += pinned[i] != 0, x[i] = i;
    look<<<4, 256>>>(x, n, wrong);
    cudaDeviceSynchronize();
    printf("%d %d\n", *wrong, set);
    cudaFree(wrong), cudaFree(x), cudaFreeHost(pinned);
}
/* prints
0 0
*/
