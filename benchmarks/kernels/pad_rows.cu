// pad_rows.cu: copies a matrix into rows of another length, for engines that want rows to begin at 16 bytes.
// Idea:    what is added is zero, what does not fit is left out. Where rows grow, a thread stores eight halves at once.
// Entry:   pad_rows(const half from[rows,cols] in, half to[rows,width] out, int rows, int cols, int width)
// Needs:   rows <= 65535
// Launch:  pad_rows block=(THREADS) grid=(cdiv(width, THREADS * EACH), rows)

#include <cuda_fp16.h>

constexpr int THREADS = 128;
constexpr int EACH = 8;  // halves that a thread copies

extern "C" __global__ void pad_rows(const half* __restrict__ from, half* __restrict__ to, int rows, int cols, int width)
{
    const size_t row = blockIdx.y;
    const half* const line = from + row * cols;
    half* const place = to + row * width;
    const int first = blockIdx.x * THREADS * EACH;
    if (width % EACH == 0) {
        const int col = first + threadIdx.x * EACH;
        if (col >= width) return;
        __align__(16) half moved[EACH];
        #pragma unroll
        for (int i = 0; i < EACH; ++i) {
            moved[i] = col + i < cols ? line[col + i] : __float2half(0.0f);
        }
        *reinterpret_cast<uint4*>(place + col) = *reinterpret_cast<const uint4*>(moved);
        return;
    }
    #pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const int col = first + i * THREADS + threadIdx.x;
        if (col < width) place[col] = col < cols ? line[col] : __float2half(0.0f);
    }
}
