// AES-128 of 16-byte blocks, one a thread: ten rounds written out, with the tables of SubBytes and MixColumns together.
constexpr int ROUNDS = 10, THREADS = 64;

__device__ unsigned byte(unsigned x, int n)
{
    return x >> 8 * n & 255;
}

// `sbox` has 256 words, `keys` those of 11 rounds; words are little endian, a word is a column.
extern "C" __global__ void aes(const uint4* plain, const unsigned* sbox, const unsigned* keys, uint4* cipher, int count)
{
    __shared__ unsigned box[256], mixed[256], round_keys[4 * (ROUNDS + 1)];
    for (int i = threadIdx.x; i < 256; i += THREADS) {
        const unsigned s = sbox[i], twice = (s << 1 ^ (s >> 7) * 0x11b) & 255;
        box[i] = s;
        mixed[i] = twice | s << 8 | s << 16 | (twice ^ s) << 24;
    }
    if (threadIdx.x < 4 * (ROUNDS + 1))
        round_keys[threadIdx.x] = keys[threadIdx.x];
    __syncthreads();

    const int t = blockIdx.x * THREADS + threadIdx.x;
    if (t >= count)
        return;
    const uint4 block = plain[t];
    unsigned s[4] = {block.x, block.y, block.z, block.w};
#pragma unroll
    for (int c = 0; c < 4; ++c)
        s[c] ^= round_keys[c];
#pragma unroll
    for (int round = 1; round <= ROUNDS; ++round) {
        unsigned next[4];
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            next[c] = round_keys[4 * round + c];
#pragma unroll
            for (int row = 0; row < 4; ++row) { // ShiftRows: row r comes from r columns further on
                const unsigned from = byte(s[(c + row) % 4], row);
                next[c] ^= round < ROUNDS ? __funnelshift_l(mixed[from], mixed[from], 8 * row) : box[from] << 8 * row;
            }
        }
#pragma unroll
        for (int c = 0; c < 4; ++c)
            s[c] = next[c];
    }
    cipher[t] = make_uint4(s[0], s[1], s[2], s[3]);
}
