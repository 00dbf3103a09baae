// reduce_atomic.cu: a sum: shuffles in a warp, shared memory in a block, one atomic addition a block
// Entry:   total(const float x[n] in, float sum[1] out, int n)
// Zeroed:  sum
// Launch:  total block=(256) grid=(min(cdiv(n, 256), 2112))

extern "C" __global__ void total(const float* __restrict__ x, float* sum, int n)
{
    __shared__ float parts[8];
    float own = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) own += x[i];
    for (int step = 16; step > 0; step /= 2) own += __shfl_down_sync(0xffffffff, own, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = own;
    __syncthreads();
    if (threadIdx.x < 8) {
        own = parts[threadIdx.x];
        for (int step = 4; step > 0; step /= 2) own += __shfl_down_sync(0xff, own, step, 8);
        if (threadIdx.x == 0) atomicAdd(sum, own);
    }
}
