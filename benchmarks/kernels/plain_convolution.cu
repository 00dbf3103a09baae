// plain_convolution.cu: a block of 32 x 32 threads for each image and filter, whatever the size of the result: the first
// kernel of the ECE 408 report (table 1), written anew. Threads beyond the result do nothing.

extern "C" __global__ void __launch_bounds__(1024)
conv(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int C, int H, int W, int F, int R,
     int S)
{
    const int OH = H - R + 1, OW = W - S + 1;
    const int n = blockIdx.x / F, f = blockIdx.x % F;
    const int row = threadIdx.y, col = threadIdx.x;
    if (row >= OH || col >= OW) return;
    float sum = 0.0f;
    for (int c = 0; c < C; ++c) {
        for (int r = 0; r < R; ++r) {
            for (int s = 0; s < S; ++s) {
                sum += x[((n * C + c) * H + row + r) * W + col + s] * w[((f * C + c) * R + r) * S + s];
            }
        }
    }
    y[((n * F + f) * OH + row) * OW + col] = sum;
}
