// attention_naive.cu: scores, softmax and sum of one head, a block a query
// Entry:   attend(const float Q[T,64] in, const float K[T,64] in, const float V[T,64] in, float O[T,64] out, int T)
// Launch:  attend block=(64) grid=(T) shared=4 * T

extern "C" __global__ void attend(const float* __restrict__ Q, const float* __restrict__ K, const float* __restrict__ V, float* __restrict__ O, int T)
{
    extern __shared__ float score[];
    __shared__ float q[64], part[2];
    const int t = threadIdx.x;
    q[t] = Q[blockIdx.x * 64 + t] * 0.125f;
    __syncthreads();
    float top = -1e30f;
    for (int k = t; k < T; k += 64) {
        float s = 0.0f;
#pragma unroll 16
        for (int i = 0; i < 64; ++i) s += q[i] * K[k * 64 + i];
        score[k] = s;
        top = fmaxf(top, s);
    }
    for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, step));
    if (t % 32 == 0) part[t / 32] = top;
    __syncthreads();
    top = fmaxf(part[0], part[1]);
    float sum = 0.0f, out = 0.0f;
    for (int k = 0; k < T; ++k) {
        const float p = __expf(score[k] - top);
        sum += p;
        out += p * V[k * 64 + t];
    }
    O[blockIdx.x * 64 + t] = out / sum;
}
