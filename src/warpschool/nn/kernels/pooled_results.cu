// pooled_results.cu: bias, ReLU and means of 2 x 2 in A^T M A for @NAME@, written from the exact matrices.
// Entry:   pooled_results(const float M[SIDE*SIDE,F,BATCH*TY*TX] in, const float bias[F] in,
//                         float y[BATCH,F,OH / 2,OW / 2] out, int BATCH, int F, int OH, int OW)
// Sizes:   TY = cdiv(OH, TILE), TX = cdiv(OW, TILE)
// Needs:   F <= 65535, OH >= 2, OW >= 2
// Launch:  pooled_results block=(THREADS) grid=(cdiv(BATCH*TY*TX, THREADS), F)

@COMMON@

extern "C" __global__ void __launch_bounds__(THREADS)
pooled_results(const float* __restrict__ M, const float* __restrict__ bias, float* __restrict__ y,
               int BATCH, int F, int OH, int OW)
{
@COLUMNS@
    const int PH = OH / 2;  // what is left over at an edge belongs to no window
    const int PW = OW / 2;
    const int row0 = p / TX % TY * (TILE / 2);
    const int col0 = p % TX * (TILE / 2);
    const float more = bias[f];
    float* to = y + ((static_cast<size_t>(p / (TY * TX)) * F + f) * PH + row0) * PW + col0;
    #pragma unroll
    for (int i = 0; i < TILE / 2; ++i) {
        float upper[TILE];
        float lower[TILE];
        float means[TILE / 2];
        transform(upper, middle[2 * i]);
        transform(lower, middle[2 * i + 1]);
        #pragma unroll
        for (int j = 0; j < TILE / 2; ++j) {
            means[j] = 0.25f * (fmaxf(upper[2 * j] + more, 0.0f) + fmaxf(upper[2 * j + 1] + more, 0.0f)
                                + fmaxf(lower[2 * j] + more, 0.0f) + fmaxf(lower[2 * j + 1] + more, 0.0f));
        }
        if (TILE == 4 && PW % 2 == 0) {  // both means of a row exist or none does, and they are aligned
            if (row0 + i < PH && col0 < PW) {
                *reinterpret_cast<float2*>(to + i * PW) = make_float2(means[0], means[TILE / 2 - 1]);
            }
        } else {
            #pragma unroll
            for (int j = 0; j < TILE / 2; ++j) {
                if (row0 + i < PH && col0 + j < PW) to[i * PW + j] = means[j];
            }
        }
    }
}
