// one_by_one.cu: right, but every product loads both its factors.
// Entry:   turn(const float w[F,C,R,S] in, float turned[KP,CP] out, int C, int F, int R, int S)
// Entry:   conv_backward_data(const float dy[BATCH,F,OH,OW] in, const float turned[KP,CP] in,
//                             float dx[BATCH,C,H,W] out, int BATCH, int C, int H, int W, int F, int R, int S,
//                             int STRIDE, int PAD)
// Sizes:   OH = (H + 2 * PAD - R) / STRIDE + 1, OW = (W + 2 * PAD - S) / STRIDE + 1,
//          CP = cdiv(C, TSM) * TSM, KP = cdiv(F * R * S, TSK) * TSK
// Needs:   H + 2 * PAD >= R, W + 2 * PAD >= S, R <= 32, S <= 32
// Scratch: turned
// Launch:  turn block=(256) grid=(cdiv(KP * CP, 256))
// Launch:  conv_backward_data block=(128) grid=(cdiv(BATCH * C * H * W, 128))

// expect: PERF

constexpr int TSM = 32;
constexpr int TSN = 128;
constexpr int TSK = 8;
constexpr int WSM = 32;
constexpr int WSN = 32;
constexpr int WPTM = 8;
constexpr int WPTN = 4;
constexpr int RTSM = WSM / WPTM;
constexpr int RTSN = WSN / WPTN;
constexpr int THREADS = (TSM / WSM) * (TSN / WSN) * 32;
constexpr int LOADS_W = (TSM * TSK / 4 + THREADS - 1) / THREADS;
constexpr int COLUMNS = TSN / THREADS;
constexpr int LOAD_AT = 1;
constexpr int STORE_AT = TSK - 2;

__device__ void get_quad(float* to, const float* from)
{
    const float4 quad = *reinterpret_cast<const float4*>(from);
    to[0] = quad.x;
    to[1] = quad.y;
    to[2] = quad.z;
    to[3] = quad.w;
}

__device__ unsigned windows(int first, int count, int stride, int size)
{
    unsigned bits = 0;
    for (int i = 0; i < count; ++i) {
        const int corner = first - i;
        const bool exists = corner >= 0 && corner % stride == 0 && corner / stride < size;
        bits |= (exists ? 1u : 0u) << i;
    }
    return bits;
}

extern "C" __global__ void turn(const float* __restrict__ w, float* __restrict__ turned, int C, int F, int R, int S)
{
    const int CP = (C + TSM - 1) / TSM * TSM;
    const int KP = (F * R * S + TSK - 1) / TSK * TSK;
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= KP * CP) return;
    const int c = i % CP;
    const int f = i / CP / (R * S);
    turned[i] = c < C && f < F ? w[(f * C + c) * (R * S) + i / CP % (R * S)] : 0.0f;
}

extern "C" __global__ void conv_backward_data(const float* dy, const float* turned, float* dx, int BATCH, int C, int H,
                                              int W, int F, int R, int S, int STRIDE, int PAD)
{
    const int OH = (H + 2 * PAD - R) / STRIDE + 1;
    const int OW = (W + 2 * PAD - S) / STRIDE + 1;
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= BATCH * C * H * W) return;
    const int v = i % W + PAD;
    const int h = i / W % H + PAD;
    const int c = i / (H * W) % C;
    const int n = i / (H * W) / C;
    const int CP = (C + TSM - 1) / TSM * TSM;
    float sum = 0.0f;
    for (int f = 0; f < F; ++f) {
        for (int r = h % STRIDE; r < R && r <= h; r += STRIDE) {
            for (int s = v % STRIDE; s < S && s <= v; s += STRIDE) {
                const int row = (h - r) / STRIDE;
                const int col = (v - s) / STRIDE;
                if (row < OH && col < OW) {
                    sum += dy[((n * F + f) * OH + row) * OW + col] * turned[((f * R + r) * S + s) * CP + c];
                }
            }
        }
    }
    dx[i] = sum;
}
