// A barrier is missing. Quick.
// finds: race 9
// finds: race 9
// finds: uninitialized 9
__global__ void reverse(int* x)
{
    __shared__ int s[64];
    int i = threadIdx.x;
    s[i] = x[i], x[i] = s[63 - i];
}

int main()
{
    int* x;
    cudaMalloc(&x, 64 * sizeof(int));
    cudaMemset(x, 0, 64 * sizeof(int));
    reverse<<<1, 64>>>(x);
    cudaDeviceSynchronize();
    cudaFree(x);
    return 0;
}
