// max_pool_2.cu: largest of 2 x 2, two floats a load
// Entry:   pool(const float x[P,H,W] in, float y[P,H/2,W/2] out, int P, int H, int W)
// Launch:  pool block=(128) grid=(cdiv(P * (H / 2) * (W / 2), 128))

extern "C" __global__ void pool(const float* __restrict__ x, float* __restrict__ y, int P, int H, int W)
{
    const int i = blockIdx.x * 128 + threadIdx.x, w = W / 2, h = H / 2;
    if (i >= P * h * w) return;
    const int c = i % w, r = i / w % h, p = i / (w * h);
    const float* at = x + ((size_t)p * H + 2 * r) * W + 2 * c;
    const float2 above = *reinterpret_cast<const float2*>(at), below = *reinterpret_cast<const float2*>(at + W);
    y[i] = fmaxf(fmaxf(above.x, above.y), fmaxf(below.x, below.y));
}
