// filter_of_the_whole.cu: looks for filter F0 + f in constant memory, where the part begins with F0.
// Entry:   conv(const float x[BATCH,C,H,W] in, float y[BATCH,F,OH,OW] inout,
//               int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD, int F0, int PART)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S, 0 <= F0, F0 + PART <= F, PART * C * R * S <= ROOM
// Constant: filters <- part
// Launch:  conv block=(cdiv(OW, cdiv(OW, MOST)), cdiv(OH, cdiv(OH, MOST))) grid=(BATCH * PART, cdiv(OH, MOST), cdiv(OW, MOST))

constexpr int MOST = 32;
constexpr int ROOM = 16384;

__constant__ float filters[ROOM];

extern "C" __global__ void conv(const float* __restrict__ x, float* __restrict__ y,
                                int BATCH, int C, int H, int W, int F, int R, int S, int STRIDE, int PAD,
                                int F0, int PART)
{
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int n = blockIdx.x / PART;
    const int f = blockIdx.x % PART;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.z * blockDim.x + threadIdx.x;

    if (row < OH && col < OW) {
        float sum = 0.0f;
        for (int c = 0; c < C; ++c) {
            for (int r = 0; r < R; ++r) {
                for (int s = 0; s < S; ++s) {
                    const int h = row * STRIDE + r - PAD;
                    const int v = col * STRIDE + s - PAD;
                    if (0 <= h && h < H && 0 <= v && v < W) {
                        sum += x[((n * C + c) * H + h) * W + v] * filters[(((F0 + f) * C + c) * R + r) * S + s];  // expect: OOB
                    }
                }
            }
        }
        y[((n * F + F0 + f) * OH + row) * OW + col] = sum;
    }
}
