// mandelbrot.cu: iterations to escape: lanes leave at different times
// Entry:   escape(int out[H,W] out, int H, int W, int most)
// Launch:  escape block=(16, 16) grid=(cdiv(W, 16), cdiv(H, 16))

extern "C" __global__ void escape(int* out, int H, int W, int most)
{
    const int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x >= W || y >= H) return;
    const float cr = -2.2f + 3.2f * x / W, ci = -1.3f + 2.6f * y / H;
    float a = 0.0f, b = 0.0f;
    int n = 0;
    while (n < most && a * a + b * b < 4.0f) {
        const float next = a * a - b * b + cr;
        b = 2.0f * a * b + ci;
        a = next;
        ++n;
    }
    out[y * W + x] = n;
}
