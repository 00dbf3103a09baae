// first_windows.cu: the windows of a first layer, written out as halfs.
// Idea:    three channels fill no tensor core, and 27 numbers of a window are almost 32: written out, the layer is a
//          convolution of 1 x 1 with 32 channels, forward and for its filters, and the images need no rounding of
//          their own. A thread writes 16 bytes: 8 of a place's 32 numbers.
// From:    lab08_convolution/05_im2col.cu
// Limits:  stride 1, windows keep the image's size; SIDE * SIDE * C numbers fit into COLS.
// Entry:   unroll(const float x[BATCH,H,W,C] in, half cols[BATCH,H,W,COLS] out, int BATCH, int H, int W)
// Needs:   BATCH * H * W <= 268435456
// Launch:  unroll block=(256) grid=(cdiv(BATCH * H * W * (COLS / 8), 256))

#include <cuda_fp16.h>

constexpr int C = 3;      // channels: with windows known to the compiler, no division is left
constexpr int SIDE = 3;   // rows and columns of a window
constexpr int COLS = 32;  // numbers of a place, with zeros at the end
constexpr int WIDE = 8;   // that a thread writes

static_assert(SIDE % 2 == 1 && SIDE * SIDE * C <= COLS, "a window with a middle, whose numbers fit");

union Eight {
    uint4 whole;
    half parts[WIDE];
};

extern "C" __global__ void unroll(const float* x, half* cols, int BATCH, int H, int W)
{
    const int number = blockIdx.x * blockDim.x + threadIdx.x;
    const int place = number / (COLS / WIDE);
    if (place >= BATCH * H * W) return;
    const int first = number % (COLS / WIDE) * WIDE;
    const int row = place / W % H;
    const int col = place % W;
    const float* const corner = x + (static_cast<long long>(place) - (SIDE / 2) * (W + 1)) * C;
    Eight found;
    #pragma unroll
    for (int i = 0; i < WIDE; ++i) {
        const int element = (first + i) / C;
        const int r = element / SIDE;
        const int s = element % SIDE;
        const bool inside = element < SIDE * SIDE && static_cast<unsigned>(row + r - SIDE / 2) < H
                            && static_cast<unsigned>(col + s - SIDE / 2) < W;
        found.parts[i] = __float2half(inside ? corner[(r * W + s) * C + (first + i) % C] : 0.0f);
    }
    reinterpret_cast<uint4*>(cols)[number] = found.whole;
}
