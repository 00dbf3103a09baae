// unrolled_convolution.cu: a convolution as a matrix product whose second factor is never stored: a block of 32 x 32
//          threads for each image, filters of [R,S,C,F]. The kernels of the ECE 408 report's tables 5 to 7, written anew.
// The columns of im2col are read where they lie, in the image. TILED = 0: a thread computes whole results, every operand
// from global memory. TILED = 1: tiles of 32 x 32 in shared memory. CONSTANT = 1: filters in constant memory, where they
// fit. TURNED = 0: images of [H,W,C] and results of [OH,OW,F]; TURNED = 1: images of [C,H,W] and results as a 2 x 2
// pooling wants them, [F,2*OH,OW/2].

constexpr int TILED = 1;
constexpr int CONSTANT = 0;
constexpr int TURNED = 0;
constexpr int TILE = 32;
constexpr int ROOM = 16384;  // floats of constant memory

__constant__ float filters[ROOM];

// Where a pixel of the image lies.
__device__ int pixel(int c, int row, int col, int C, int H, int W)
{
    return TURNED ? (c * H + row) * W + col : (row * W + col) * C + c;
}

// Where result p of filter f goes.
__device__ int place(int f, int p, int F, int OH, int OW)
{
    if (!TURNED) return p * F + f;
    const int row = p / OW, col = p % OW;
    const int line = row / 2 * 4 + row % 2 * 2 + col % 2;  // four neighbours of a window lie one below the other
    return f * OH * OW + line * (OW / 2) + col / 2;
}

__device__ float weight(const float* w, int k, int f, int F)
{
    return CONSTANT ? filters[k * F + f] : w[k * F + f];
}

extern "C" __global__ void __launch_bounds__(TILE * TILE)
conv(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int C, int H, int W, int F, int R,
     int S)
{
    const int OH = H - R + 1, OW = W - S + 1, P = OH * OW, K = R * S * C;
    const float* image = x + blockIdx.x * C * H * W;
    float* result = y + blockIdx.x * F * P;
    const auto unrolled = [&](int k, int p) {  // element of the matrix that im2col would store; k runs like w's rows
        const int c = k % C, s = k / C % S, r = k / C / S;
        return image[pixel(c, p / OW + r, p % OW + s, C, H, W)];
    };
    if (!TILED) {
        for (int i = threadIdx.y * TILE + threadIdx.x; i < F * P; i += TILE * TILE) {
            const int p = i % P, f = i / P;
            float sum = 0.0f;
            for (int k = 0; k < K; ++k) sum += weight(w, k, f, F) * unrolled(k, p);
            result[place(f, p, F, OH, OW)] = sum;
        }
        return;
    }
    __shared__ float tileW[TILE][TILE + 1];  // [filter][k]
    __shared__ float tileX[TILE][TILE];      // [k][place]
    const int tx = threadIdx.x, ty = threadIdx.y;
    for (int f0 = 0; f0 < F; f0 += TILE) {
        for (int p0 = 0; p0 < P; p0 += TILE) {
            float sum = 0.0f;
            for (int k0 = 0; k0 < K; k0 += TILE) {
                // neighbours of w are filters: lanes run along them, and store what they load transposed
                tileW[tx][ty] = k0 + ty < K && f0 + tx < F ? weight(w, k0 + ty, f0 + tx, F) : 0.0f;
                tileX[ty][tx] = k0 + ty < K && p0 + tx < P ? unrolled(k0 + ty, p0 + tx) : 0.0f;
                __syncthreads();
                for (int k = 0; k < TILE; ++k) sum += tileW[ty][k] * tileX[k][tx];
                __syncthreads();
            }
            if (f0 + ty < F && p0 + tx < P) result[place(f0 + ty, p0 + tx, F, OH, OW)] = sum;
        }
    }
}
