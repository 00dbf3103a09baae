// window_per_thread_pool.cu: a block for each image, a thread for each window of 2 x 2, which walks through all channels;
// images of [H,W,C], so that neighbouring threads are C floats apart: the "normal" pooling of the ECE 408 report's table
// 11, written anew.

extern "C" __global__ void average_pool(const float* __restrict__ x, float* __restrict__ y, int C, int H, int W)
{
    const int PH = H / 2, PW = W / 2;
    const float* image = x + blockIdx.x * H * W * C;
    float* result = y + blockIdx.x * PH * PW * C;
    const int row = threadIdx.y, col = threadIdx.x;
    for (int c = 0; c < C; ++c) {
        float sum = 0.0f;
        for (int r = 0; r < 2; ++r) {
            for (int s = 0; s < 2; ++s) sum += image[((2 * row + r) * W + 2 * col + s) * C + c];
        }
        result[(row * PW + col) * C + c] = sum / 4;
    }
}
