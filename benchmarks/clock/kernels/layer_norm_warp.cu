// layer_norm_warp.cu: layer norm of short rows, a warp a row
// Entry:   normalise(const float x[R,C] in, const float scale[C] in, float y[R,C] out, int R, int C)
// Launch:  normalise block=(32, 8) grid=(cdiv(R, 8))

extern "C" __global__ void normalise(const float* __restrict__ x, const float* __restrict__ scale, float* __restrict__ y, int R, int C)
{
    const int r = blockIdx.x * 8 + threadIdx.y;
    if (r >= R) return;
    float sum = 0.0f, squares = 0.0f;
    for (int c = threadIdx.x; c < C; c += 32) {
        const float v = x[r * C + c];
        sum += v;
        squares += v * v;
    }
    for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, step);
        squares += __shfl_xor_sync(0xffffffff, squares, step);
    }
    const float mean = sum / C, factor = rsqrtf(squares / C - mean * mean + 1e-5f);
    for (int c = threadIdx.x; c < C; c += 32) y[r * C + c] = (x[r * C + c] - mean) * factor * scale[c];
}
