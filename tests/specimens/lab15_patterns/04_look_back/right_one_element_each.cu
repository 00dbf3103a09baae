// right_one_element_each.cu: a thread loads elements one by one; a tile is scanned in shared memory by distances, and one
// thread looks back.
// Entry:   scan(const float x[n] in, float y[n] out, int ticket[1] out, int flag[cdiv(n, 4096)] out,
//               float sum[cdiv(n, 4096)] out, float prefix[cdiv(n, 4096)] out, int first, int n)
// Needs:   n >= 1, first >= 0, first < cdiv(n, 4096)
// Scratch: flag, sum, prefix
// Zeroed:  ticket, flag
// Launch:  scan block=(1024) grid=(cdiv(n, 4096))
// Usual:   first = 0

// expect: AC
extern "C" __global__ void scan(const float* x, float* y, int* ticket, int* flag, float* sum, float* prefix,
                                int first, int n)
{
    __shared__ float part[2][1024];
    __shared__ int tile;
    __shared__ float start;
    const int t = threadIdx.x;
    if (t == 0) tile = (atomicAdd(ticket, 1) + first) % gridDim.x;
    __syncthreads();
    float own[4], before = 0.0f;
    for (int r = 0; r < 4; ++r) {
        const int i = tile * 4096 + r * 1024 + t;
        own[r] = i < n ? x[i] : 0.0f;
        int full = 0;
        part[0][t] = own[r];
        __syncthreads();
        for (int d = 1; d < 1024; d *= 2) {
            if (t >= d) own[r] += part[full][t - d];
            full ^= 1;
            part[full][t] = own[r];
            __syncthreads();
        }
        own[r] += before;
        before += part[full][1023];
        __syncthreads();
    }
    if (t == 0) {
        volatile int* flags = flag;
        sum[tile] = before;
        __threadfence();
        flags[tile] = 1;
        float found = 0.0f;
        for (int k = tile - 1; k >= 0; --k) {
            int known;
            while ((known = flags[k]) == 0) { }
            __threadfence();
            found += known == 2 ? prefix[k] : sum[k];
            if (known == 2) break;
        }
        prefix[tile] = found + before;
        __threadfence();
        flags[tile] = 2;
        start = found;
    }
    __syncthreads();
    for (int r = 0; r < 4; ++r) {
        const int i = tile * 4096 + r * 1024 + t;
        if (i < n) y[i] = start + own[r];
    }
}
