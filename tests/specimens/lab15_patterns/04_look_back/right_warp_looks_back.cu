// right_warp_looks_back.cu: a warp looks at 32 tiles at a time; tiles are scanned in shared memory by distances.
// Entry:   scan(const float x[n] in, float y[n] out, int ticket[1] out, int flag[cdiv(n, 512)] out,
//               float sum[cdiv(n, 512)] out, float prefix[cdiv(n, 512)] out, int first, int n)
// Needs:   n >= 1, first >= 0, first < cdiv(n, 512)
// Scratch: flag, sum, prefix
// Zeroed:  ticket, flag
// Launch:  scan block=(512) grid=(cdiv(n, 512))
// Usual:   first = 0

// expect: AC
extern "C" __global__ void scan(const float* x, float* y, int* ticket, int* flag, float* sum, float* prefix,
                                int first, int n)
{
    __shared__ float part[2][512];
    __shared__ int tile;
    __shared__ float start;
    const int t = threadIdx.x;
    if (t == 0) tile = (atomicAdd(ticket, 1) + first) % gridDim.x;
    __syncthreads();
    const int i = tile * 512 + t;
    float own = i < n ? x[i] : 0.0f;
    int full = 0;
    part[0][t] = own;
    __syncthreads();
    for (int d = 1; d < 512; d *= 2) {
        if (t >= d) own += part[full][t - d];
        full ^= 1;
        part[full][t] = own;
        __syncthreads();
    }
    if (t < 32) {
        const float total = part[full][511];
        volatile int* flags = flag;
        if (t == 0) {
            sum[tile] = total;
            __threadfence();
            flags[tile] = 1;
        }
        float before = 0.0f;
        for (int last = tile - 1; last >= 0; last -= 32) {
            const int k = last - t;
            int known = 2;
            if (k >= 0) while ((known = flags[k]) == 0) { }
            __syncwarp();
            __threadfence();
            const unsigned all_before = __ballot_sync(~0u, known == 2);
            const int end = all_before ? __ffs(all_before) - 1 : 31;
            float mine = k < 0 || t > end ? 0.0f : known == 2 ? prefix[k] : sum[k];
            for (int d = 16; d > 0; d /= 2) mine += __shfl_xor_sync(~0u, mine, d);
            before += mine;
            if (all_before) break;
        }
        if (t == 0) {
            prefix[tile] = before + total;
            __threadfence();
            flags[tile] = 2;
            start = before;
        }
    }
    __syncthreads();
    if (i < n) y[i] = start + own;
}
