// Two buffers, one of them freed. Quick.
// finds: leak 7
int main()
{
    float *kept, *freed;
    cudaMalloc(&freed, 1000);
    cudaMalloc(&kept, 1000), cudaMemset(kept, 0, 1000);
    cudaFree(freed);
    return 0;
}
