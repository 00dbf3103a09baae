// right_vectors.cu: four elements a thread through float4, the rest one by one.
// Entry:   saxpy(const float x[n] in, const float y[n] in, float z[n] out, float a, int n)
// Launch:  saxpy block=(BLOCK) grid=(cdiv(n, 4 * BLOCK))

// expect: AC

constexpr int BLOCK = 64;

extern "C" __global__ void saxpy(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ z,
                                 float a, int n)
{
    const int first = 4 * (blockIdx.x * BLOCK + threadIdx.x);
    if (first + 3 < n) {
        const float4 p = *reinterpret_cast<const float4*>(x + first);
        const float4 q = *reinterpret_cast<const float4*>(y + first);
        *reinterpret_cast<float4*>(z + first) =
            make_float4(a * p.x + q.x, a * p.y + q.y, a * p.z + q.z, a * p.w + q.w);
    } else {
        for (int i = first; i < n; ++i) {
            z[i] = a * x[i] + y[i];
        }
    }
}
