// right_four_bytes.cu: a lane loads four bytes as a word, and adds to the group's counter only when its value changes.
// Entry:   histogram(const unsigned char x[n] in, int count[BINS] out, int n)
// Needs:   n >= 1
// Zeroed:  count
// Launch:  histogram block=(256) grid=(min(cdiv(n, 8192), 264))

// expect: AC
constexpr int BINS = 256;

__device__ void add(int* own, int bin)
{
    const unsigned same = __match_any_sync(~0u, bin);
    if (bin < BINS && threadIdx.x % 32 == 31 - __clz(same)) atomicAdd(own + bin, __popc(same));
}

extern "C" __global__ void histogram(const unsigned char* x, int* count, int n)
{
    __shared__ int own[BINS];
    const int t = threadIdx.x;
    own[t] = 0;
    __syncthreads();
    for (int first = blockIdx.x * 1024; first < n; first += gridDim.x * 1024) {
        const int i = first + 4 * t;
        uchar4 four = make_uchar4(0, 0, 0, 0);
        if (i + 3 < n) four = *reinterpret_cast<const uchar4*>(x + i);
        else {
            if (i < n) four.x = x[i];
            if (i + 1 < n) four.y = x[i + 1];
            if (i + 2 < n) four.z = x[i + 2];
        }
        add(own, i < n ? four.x : BINS);
        add(own, i + 1 < n ? four.y : BINS);
        add(own, i + 2 < n ? four.z : BINS);
        add(own, i + 3 < n ? four.w : BINS);
    }
    __syncthreads();
    atomicAdd(count + t, own[t]);
}
