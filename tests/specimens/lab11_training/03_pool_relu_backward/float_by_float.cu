// float_by_float.cu: right, but stores single floats: half of each sector at a time.
// Entry:   pool_relu_backward(const float dy[BATCH,C,H / 2,W / 2] in, const unsigned saved[WORDS] in,
//                             float dz[BATCH,C,H,W] out, int BATCH, int C, int H, int W)
// Sizes:   CELLS = BATCH * C * cdiv(H, 2) * cdiv(W, 2),
//          WORDS = PACKED * 4 * cdiv(CELLS, 32) + (1 - PACKED) * cdiv(CELLS, 4)
// Needs:   H >= 2, W >= 2
// Launch:  pool_relu_backward block=(THREADS) grid=(cdiv(CELLS, THREADS))

constexpr int AVERAGE = 0;
constexpr int PACKED = 1;
constexpr int THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS)
pool_relu_backward(const float* __restrict__ dy, const unsigned* __restrict__ saved, float* __restrict__ dz,
                   int BATCH, int C, int H, int W)
{
    const int across = (W + 1) / 2;
    const int down = (H + 1) / 2;
    const int cell = blockIdx.x * THREADS + threadIdx.x;
    if (cell >= BATCH * C * down * across) return;

    unsigned bits = 0;
    if (PACKED) {
        const uint4 words = reinterpret_cast<const uint4*>(saved)[cell / 32];
        const int lane = cell % 32;
        bits = (words.x >> lane & 1) | (words.y >> lane & 1) << 1;
        bits |= (words.z >> lane & 1) << 2 | (words.w >> lane & 1) << 3;
    } else {
        bits = reinterpret_cast<const unsigned char*>(saved)[cell];
    }
    const int plane = cell / (down * across);
    const int row = cell / across % down * 2;
    const int col = cell % across * 2;
    float slope = 0.0f;
    if (row + 1 < H && col + 1 < W) {
        slope = dy[(static_cast<size_t>(plane) * (H / 2) + row / 2) * (W / 2) + col / 2];
        if (AVERAGE) slope *= 0.25f;
    }
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        if (row + i >= H) break;
        float* to = dz + (static_cast<size_t>(plane) * H + row + i) * W + col;
        for (int j = 0; j < 2 && col + j < W; ++j) {
            to[j] = bits >> (2 * i + j) & 1 ? slope : 0.0f;  // expect: PERF
        }
    }
}
