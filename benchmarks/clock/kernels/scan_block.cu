// scan_block.cu: inclusive sums of 1024 elements a block, Hillis and Steele in two buffers
// Entry:   scan(const float x[n] in, float y[n] out, int n)
// Launch:  scan block=(1024) grid=(cdiv(n, 1024))

extern "C" __global__ void scan(const float* __restrict__ x, float* __restrict__ y, int n)
{
    __shared__ float buffer[2][1024];
    const int t = threadIdx.x, i = blockIdx.x * 1024 + t;
    int now = 0;
    buffer[0][t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int step = 1; step < 1024; step *= 2) {
        buffer[1 - now][t] = buffer[now][t] + (t >= step ? buffer[now][t - step] : 0.0f);
        now = 1 - now;
        __syncthreads();
    }
    if (i < n) y[i] = buffer[now][t];
}
