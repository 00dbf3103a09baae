// launch: grid=2 block=64 words=2
// printf, assert and a trap that is not reached.
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i % 41 == 0) printf("%d %5u %08x %-6.3f|%e %c %s %lld %p%%\n", i, in[i], in[i + 1], 0.5 * i, 1e-3 * i, 'a' + i % 26, i & 1 ? "odd" : "even", (long long)in[i] << 9, (void*)0);
    assert(i >= 0);
    if (in[i] == 0xdeadbeef && i == 12345) __trap();
    out[i * 2] = i; out[i * 2 + 1] = in[i];
}
