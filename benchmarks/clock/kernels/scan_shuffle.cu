// scan_shuffle.cu: inclusive sums of 256 elements a block by shuffles
// Entry:   scan(const float x[n] in, float y[n] out, int n)
// Launch:  scan block=(256) grid=(cdiv(n, 256))

extern "C" __global__ void scan(const float* __restrict__ x, float* __restrict__ y, int n)
{
    __shared__ float ends[8];
    const int i = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float own = i < n ? x[i] : 0.0f;
    for (int step = 1; step < 32; step *= 2) {
        const float other = __shfl_up_sync(0xffffffff, own, step);
        if (lane >= step) own += other;
    }
    if (lane == 31) ends[warp] = own;
    __syncthreads();
    for (int w = 0; w < warp; ++w) own += ends[w];
    if (i < n) y[i] = own;
}
