// A barrier that only half of the threads reach.
// finds: divergent-barrier 5
__global__ void half(int* x)
{
    if (threadIdx.x < 32) __syncthreads();
    x[threadIdx.x] = 1;
}

int main()
{
    int* x;
    cudaMalloc(&x, 64 * sizeof(int));
    half<<<1, 64>>>(x);
    cudaDeviceSynchronize();
    cudaFree(x);
    return 0;
}
