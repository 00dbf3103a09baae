// 10_fft.cu: the product in frequency space that makes a convolution of two transforms.
// Idea:    transformed by a library's FFT, images and filters need one complex product for each frequency, whatever
//          the filters' size: Y = sum over c of X * conj(W), and Y transformed back is y. (conj, because a network's
//          convolution does not flip its filters.) At each of the POINTS frequencies this is a product of matrices
//          [BATCH, C] and [C, F]. Lanes stand for frequencies, so all accesses are contiguous; a thread computes
//          NPT images x FPT filters, so that NPT + FPT loads serve NPT * FPT products.
// Limits:  transforms are as large as the image, also of a filter of 1 x 1; no tile in shared memory.
// Entry:   multiply(const float2 X[BATCH,C,POINTS,2] in, const float2 W[F,C,POINTS,2] in,
//                   float2 Y[BATCH,F,POINTS,2] out, int BATCH, int C, int F, int POINTS)
// Needs:   BATCH <= 65535, F <= 65535
// Launch:  multiply block=(THREADS) grid=(cdiv(POINTS, THREADS), cdiv(F, FPT), cdiv(BATCH, NPT))

constexpr int THREADS = 64;
constexpr int NPT = 4;  // images of a thread
constexpr int FPT = 4;  // filters of a thread

extern "C" __global__ void __launch_bounds__(THREADS)
multiply(const float2* __restrict__ X, const float2* __restrict__ W, float2* __restrict__ Y,
         int BATCH, int C, int F, int POINTS)
{
    const int point = blockIdx.x * THREADS + threadIdx.x;
    const int f0 = blockIdx.y * FPT;
    const int n0 = blockIdx.z * NPT;
    float2 sum[NPT][FPT] = {};

    if (point < POINTS) {
        // BEGIN SOLUTION: for each channel NPT + FPT loads, then NPT * FPT complex products (about 18 lines)
        // END SOLUTION
        for (int i = 0; i < NPT; ++i) {
            for (int j = 0; j < FPT; ++j) {
                if (n0 + i < BATCH && f0 + j < F) {
                    Y[((n0 + i) * F + f0 + j) * POINTS + point] = sum[i][j];
                }
            }
        }
    }
}
