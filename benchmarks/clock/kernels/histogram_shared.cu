// histogram_shared.cu: 256 bins of bytes: a histogram a block in shared memory, then global atomics
// Entry:   histogram(const unsigned char x[n] in, unsigned int bins[256] out, int n)
// Zeroed:  bins
// Launch:  histogram block=(256) grid=(min(cdiv(n, 2048), 1056))

extern "C" __global__ void histogram(const unsigned char* __restrict__ x, unsigned int* bins, int n)
{
    __shared__ unsigned int own[256];
    own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(&own[x[i]], 1u);
    __syncthreads();
    if (own[threadIdx.x]) atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}
