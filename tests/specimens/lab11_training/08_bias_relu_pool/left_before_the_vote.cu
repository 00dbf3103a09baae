// left_before_the_vote.cu: threads without a whole window leave, and the others vote without them.
// Entry:   bias_relu_pool(const float z[BATCH,C,H,W] in, const float bias[C] in, float y[BATCH,C,H / 2,W / 2] out,
//                         unsigned saved[WORDS] out, int BATCH, int C, int H, int W)
// Sizes:   CELLS = BATCH * C * cdiv(H, 2) * cdiv(W, 2),
//          WORDS = PACKED * 4 * cdiv(CELLS, 32) + (1 - PACKED) * cdiv(CELLS, 4)
// Needs:   H >= 2, W >= 2
// Launch:  bias_relu_pool block=(THREADS) grid=(cdiv(CELLS, THREADS))

// expect: WA

constexpr int AVERAGE = 0;
constexpr int PACKED = 1;
constexpr int THREADS = 256;
constexpr unsigned ALL = 0xffffffffu;

extern "C" __global__ void __launch_bounds__(THREADS)
bias_relu_pool(const float* __restrict__ z, const float* __restrict__ bias, float* __restrict__ y,
               unsigned* __restrict__ saved, int BATCH, int C, int H, int W)
{
    const int across = (W + 1) / 2;
    const int down = (H + 1) / 2;
    const int cells = BATCH * C * down * across;
    const int cell = blockIdx.x * THREADS + threadIdx.x;
    const int plane = cell / (down * across);
    const int row = cell / across % down * 2;
    const int col = cell % across * 2;

    if (cell >= cells || row + 1 >= H || col + 1 >= W) return;
    unsigned bits = 0;
    if (cell < cells && row + 1 < H && col + 1 < W) {
        const float* from = z + (static_cast<size_t>(plane) * H + row) * W + col;
        float window[4];
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (W % 2 == 0) {
                const float2 pair = *reinterpret_cast<const float2*>(from + i * W);
                window[2 * i] = pair.x;
                window[2 * i + 1] = pair.y;
            } else {
                window[2 * i] = from[i * W];
                window[2 * i + 1] = from[i * W + 1];
            }
        }
        const float offset = bias[plane % C];
        float pooled = 0.0f;
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float value = window[i] + offset;
            if (AVERAGE && value > 0.0f) {
                pooled += 0.25f * value;
                bits |= 1u << i;
            } else if (!AVERAGE && value > pooled) {
                pooled = value;
                bits = 1u << i;
            }
        }
        y[(static_cast<size_t>(plane) * (H / 2) + row / 2) * (W / 2) + col / 2] = pooled;
    }

    if (PACKED) {
        const int lane = threadIdx.x % 32;
        unsigned word = 0;
        #pragma unroll
        for (int place = 0; place < 4; ++place) {
            const unsigned vote = __ballot_sync(ALL, bits >> place & 1);
            if (lane == place) word = vote;
        }
        if (lane < 4 && cell - lane < cells) {
            saved[cell / 32 * 4 + lane] = word;
        }
    } else if (cell < (cells + 3) / 4 * 4) {
        reinterpret_cast<unsigned char*>(saved)[cell] = static_cast<unsigned char>(bits);
    }
}
