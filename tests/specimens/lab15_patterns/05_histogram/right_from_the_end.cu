// right_from_the_end.cu: counts backwards, in unsigned numbers, with the highest lane as the leader.
// Entry:   histogram(const unsigned char x[n] in, int count[BINS] out, int n)
// Needs:   n >= 1
// Zeroed:  count
// Launch:  histogram block=(256) grid=(min(cdiv(n, 8192), 264))

// expect: AC
constexpr int BINS = 256;

extern "C" __global__ void histogram(const unsigned char* x, int* count, int n)
{
    __shared__ unsigned own[BINS];
    const unsigned t = threadIdx.x;
    own[t] = 0u;
    __syncthreads();
    const unsigned turns = (n + 255u) / 256u;
    unsigned turn = turns - blockIdx.x;
    while (turn > 0u && turn <= turns) {
        const unsigned i = (turn - 1u) * 256u + t;
        const unsigned bin = i < static_cast<unsigned>(n) ? x[i] : 999u;
        const unsigned same = __match_any_sync(0xffffffffu, bin);
        if (bin != 999u && (same >> (t & 31u)) == 1u) {
            atomicAdd(&own[bin], static_cast<unsigned>(__popc(same)));
        }
        turn -= gridDim.x;
    }
    __syncthreads();
    atomicAdd(reinterpret_cast<unsigned*>(count) + t, own[t]);
}
