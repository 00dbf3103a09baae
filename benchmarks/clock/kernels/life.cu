// life.cu: one generation on a torus, bytes
// Entry:   generation(const unsigned char now[H,W] in, unsigned char next[H,W] out, int H, int W)
// Launch:  generation block=(32, 8) grid=(cdiv(W, 32), cdiv(H, 8))

extern "C" __global__ void generation(const unsigned char* __restrict__ now, unsigned char* __restrict__ next, int H, int W)
{
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= W || y >= H) return;
    const int l = (x + W - 1) % W, r = (x + 1) % W, u = (y + H - 1) % H * W, d = (y + 1) % H * W, c = y * W;
    const int n = now[u + l] + now[u + x] + now[u + r] + now[c + l] + now[c + r] + now[d + l] + now[d + x] + now[d + r];
    next[c + x] = n == 3 || (n == 2 && now[c + x]);
}
