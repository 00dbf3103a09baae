// SHA-256 of many messages of 64 bytes each, one a thread, 16 big-endian words in and 8 words out; rounds unrolled.
__device__ unsigned rotated(unsigned x, int n) { return __funnelshift_r(x, x, n); }

__device__ void compress(unsigned (&h)[8], unsigned (&w)[16], const unsigned* K)
{
    unsigned a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], last = h[7];
#pragma unroll
    for (int i = 0; i < 64; ++i) {
        if (i >= 16) {
            const unsigned x = w[(i + 1) & 15], y = w[(i + 14) & 15];
            w[i & 15] += (rotated(x, 7) ^ rotated(x, 18) ^ x >> 3) + w[(i + 9) & 15]
                       + (rotated(y, 17) ^ rotated(y, 19) ^ y >> 10);
        }
        const unsigned one = last + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + (e & f ^ ~e & g)
                           + K[i] + w[i & 15];
        const unsigned two = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + (a & b ^ a & c ^ b & c);
        last = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
    }
    h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e, h[5] += f, h[6] += g, h[7] += last;
}

extern "C" __global__ void sha256(const unsigned* messages, const unsigned* constants, unsigned* digests, int count)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= count)
        return;
    unsigned h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    unsigned w[16];
#pragma unroll
    for (int i = 0; i < 16; ++i)
        w[i] = messages[16 * t + i];
    compress(h, w, constants);
#pragma unroll
    for (int i = 0; i < 16; ++i) // the padding: a bit, zeros and the length in bits
        w[i] = i == 0 ? 0x80000000 : i == 15 ? 512 : 0;
    compress(h, w, constants);
#pragma unroll
    for (int i = 0; i < 8; ++i)
        digests[8 * t + i] = h[i];
}
