// fft_radix_2.cu: one stage of a radix-2 transform, real and imaginary parts apart
// Entry:   stage(const float re[n] in, const float im[n] in, float out_re[n] out, float out_im[n] out, int n, int span)
// Launch:  stage block=(256) grid=(cdiv(n / 2, 256))

extern "C" __global__ void stage(const float* __restrict__ re, const float* __restrict__ im, float* __restrict__ out_re, float* __restrict__ out_im, int n, int span)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n / 2) return;
    const int k = i % span, a = (i / span) * 2 * span + k, b = a + span;
    float s, c;
    sincospif(-(float)k / span, &s, &c);
    const float x = re[b] * c - im[b] * s, y = re[b] * s + im[b] * c;
    out_re[a] = re[a] + x;
    out_im[a] = im[a] + y;
    out_re[b] = re[a] - x;
    out_im[b] = im[a] - y;
}
