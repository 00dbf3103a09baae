// conv_3x3.cu: a 3 x 3 filter over an image, weights in constant memory
// Entry:   blur(const float x[H,W] in, const float filter[9] in, float y[H,W] out, int H, int W)
// Launch:  blur block=(32, 8) grid=(cdiv(W, 32), cdiv(H, 8))

extern "C" __global__ void blur(const float* __restrict__ x, const float* __restrict__ filter, float* __restrict__ y, int H, int W)
{
    const int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
    if (c >= W || r >= H) return;
    float sum = 0.0f;
    for (int i = -1; i <= 1; ++i)
        for (int j = -1; j <= 1; ++j)
            if (r + i >= 0 && r + i < H && c + j >= 0 && c + j < W) sum += filter[(i + 1) * 3 + j + 1] * x[(r + i) * W + c + j];
    y[r * W + c] = sum;
}
