// segmented_scan.cu: sums that begin anew at each head, 32 elements a warp step, 4 elements a thread, a block a tile
// Entry:   segments(const float x[n] in, const int head[n] in, float y[n] out, int n)
// Launch:  segments block=(128) grid=(cdiv(n, 512))

struct Run {
    float sum;
    int closed;     // a head lies inside: nothing from before it counts
};

__device__ __forceinline__ Run joined(Run before, Run after)
{
    return {after.closed ? after.sum : before.sum + after.sum, before.closed | after.closed};
}

__device__ __forceinline__ Run scanned(Run run, int lane)
{
#pragma unroll
    for (int step = 1; step < 32; step <<= 1) {
        Run before{__shfl_up_sync(~0u, run.sum, step), __shfl_up_sync(~0u, run.closed, step)};
        if (lane >= step) run = joined(before, run);
    }
    return run;
}

extern "C" __global__ void segments(const float* __restrict__ x, const int* __restrict__ head, float* __restrict__ y, int n)
{
    __shared__ Run warps[4];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int first = blockIdx.x * 512 + threadIdx.x * 4;
    float value[4];
    int starts[4];
    Run mine{0.0f, 0};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const bool inside = first + k < n;
        value[k] = inside ? x[first + k] : 0.0f;
        starts[k] = inside && head[first + k] == 0;
        mine = joined(mine, Run{value[k], starts[k]});
    }
    const Run whole = scanned(mine, lane);
    if (lane == 31) warps[warp] = whole;
    __syncthreads();
    Run carry{0.0f, 0};
    for (int k = 0; k < warp; ++k) carry = joined(carry, warps[k]);
    Run left{__shfl_up_sync(~0u, whole.sum, 1), __shfl_up_sync(~0u, whole.closed, 1)};
    if (lane > 0) carry = joined(carry, left);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        carry = joined(carry, Run{value[k], starts[k]});
        if (first + k < n) y[first + k] = carry.sum;
    }
}
