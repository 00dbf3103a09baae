// rms_norm.cu: RMS norm, a block a row, four floats a load
// Entry:   normalise(const float x[R,C] in, float y[R,C] out, int R, int C)
// Launch:  normalise block=(128) grid=(R)

extern "C" __global__ void normalise(const float* __restrict__ x, float* __restrict__ y, int R, int C)
{
    __shared__ float parts[4];
    const float4* row = reinterpret_cast<const float4*>(x + (size_t)blockIdx.x * C);
    float4* out = reinterpret_cast<float4*>(y + (size_t)blockIdx.x * C);
    float squares = 0.0f;
    for (int c = threadIdx.x; c < C / 4; c += 128) {
        const float4 v = row[c];
        squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffff, squares, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = squares;
    __syncthreads();
    const float factor = rsqrtf((parts[0] + parts[1] + parts[2] + parts[3]) / C + 1e-6f);
    for (int c = threadIdx.x; c < C / 4; c += 128) {
        const float4 v = row[c];
        out[c] = make_float4(v.x * factor, v.y * factor, v.z * factor, v.w * factor);
    }
}
