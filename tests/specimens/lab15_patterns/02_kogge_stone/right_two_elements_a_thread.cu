// right_two_elements_a_thread.cu: 256 threads with a pair of neighbours each; the pairs' sums are scanned.
// Entry:   scan(const float x[n] in, float y[n] out, int n)
// Needs:   n >= 1
// Launch:  scan block=(256) grid=(cdiv(n, 512))

// expect: AC
extern "C" __global__ void scan(const float* x, float* y, int n)
{
    __shared__ float sums[256];
    const int t = threadIdx.x, first = blockIdx.x * 512 + 2 * t;
    float2 own = make_float2(0.0f, 0.0f);
    if (first + 1 < n) own = *reinterpret_cast<const float2*>(x + first);
    else if (first < n) own.x = x[first];
    own.y += own.x;
    float sum = own.y;
    sums[t] = sum;
    __syncthreads();
    for (int d = 1; d < 256; d <<= 1) {
        float before = 0.0f;
        if (t >= d) before = sums[t - d];
        __syncthreads();
        if (t >= d) sums[t] = sum += before;
        __syncthreads();
    }
    const float start = t ? sums[t - 1] : 0.0f;
    if (first + 1 < n) *reinterpret_cast<float2*>(y + first) = make_float2(start + own.x, start + own.y);
    else if (first < n) y[first] = start + own.x;
}
