// right_parts_in_registers.cu: a thread sums four neighbours by itself, and only the threads' sums are scanned.
// Entry:   scan(const float x[n] in, float y[n] out, int n)
// Needs:   n >= 1
// Launch:  scan block=(128) grid=(cdiv(n, 512))

// expect: AC
extern "C" __global__ void scan(const float* x, float* y, int n)
{
    __shared__ float part[4];
    const int t = threadIdx.x, lane = t % 32, first = blockIdx.x * 512 + 4 * t;
    float v[4] = {};
    if (first + 3 < n) {
        const float4 quad = *reinterpret_cast<const float4*>(x + first);
        v[0] = quad.x, v[1] = quad.y, v[2] = quad.z, v[3] = quad.w;
    } else {
        for (int k = 0; k < 4; ++k) v[k] = first + k < n ? x[first + k] : 0.0f;
    }
    for (int k = 1; k < 4; ++k) v[k] += v[k - 1];
    float sum = v[3];
    for (int d = 1; d < 32; d *= 2) {
        const float before = __shfl_up_sync(0xffffffffu, sum, d);
        sum += lane >= d ? before : 0.0f;
    }
    if (lane == 31) part[t / 32] = sum;
    __syncthreads();
    float start = __shfl_up_sync(0xffffffffu, sum, 1);
    if (lane == 0) start = 0.0f;
    for (int w = 0; w < t / 32; ++w) start += part[w];
    for (int k = 0; k < 4; ++k) v[k] += start;
    if (first + 3 < n) {
        *reinterpret_cast<float4*>(y + first) = make_float4(v[0], v[1], v[2], v[3]);
    } else {
        for (int k = 0; k < 4; ++k) if (first + k < n) y[first + k] = v[k];
    }
}
