// launch: grid=2 block=64 words=8
// Device functions that are not inlined: recursion, function pointers, tables of them, switch tables.
__device__ __noinline__ unsigned fibonacci(unsigned n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ unsigned odd(unsigned n);
__device__ __noinline__ unsigned even(unsigned n) { return n == 0 ? 1 : odd(n - 1); }
__device__ __noinline__ unsigned odd(unsigned n) { return n == 0 ? 0 : even(n - 1); }
struct Big { unsigned v[6]; double d; };
__device__ __noinline__ Big ackermann_like(Big b, int depth) { if (depth == 0) return b; b.v[depth % 6] += depth; b.d *= 1.5; Big c = ackermann_like(b, depth - 1); c.v[0] ^= b.v[depth % 6]; return c; }
using Op = unsigned (*)(unsigned, unsigned);
__device__ __noinline__ unsigned plus(unsigned a, unsigned b) { return a + b; }
__device__ __noinline__ unsigned times(unsigned a, unsigned b) { return a * b; }
__device__ __noinline__ unsigned mixed(unsigned a, unsigned b) { unsigned r = a; for (unsigned k = 0; k < (b & 7); ++k) r = r * 3 + (r >> 5); return r; }
__device__ Op table[3] = {plus, times, mixed};
struct Shape { __device__ virtual unsigned area(unsigned x) const = 0; };
struct Square : Shape { __device__ unsigned area(unsigned x) const override { return x * x; } };
struct Strip : Shape { unsigned n; __device__ Strip(unsigned n) : n(n) {} __device__ unsigned area(unsigned x) const override { return x * n; } };
__device__ __noinline__ unsigned quicksort_sum(unsigned* a, int low, int high)
{
    if (low >= high) return low == high ? a[low] : 0;
    unsigned pivot = a[high]; int p = low;
    for (int k = low; k < high; ++k) if (a[k] < pivot) { unsigned s = a[k]; a[k] = a[p]; a[p] = s; ++p; }
    unsigned s = a[high]; a[high] = a[p]; a[p] = s;
    return quicksort_sum(a, low, p - 1) * 3 + a[p] + quicksort_sum(a, p + 1, high) * 7;
}
extern "C" __global__ void k(const unsigned* in, unsigned* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned x = in[i];
    unsigned* o = out + i * 8;
    o[0] = fibonacci(x % 9); o[1] = even(x % 13);
    Big b = {{x, 1, 2, 3, 4, 5}, 1.0}; b = ackermann_like(b, x % 5); o[2] = b.v[0] + b.v[3] * 7 + (unsigned)b.d;
    o[3] = table[x % 3](x, in[i + 1]);
    const Op chosen = x & 8 ? plus : times; o[4] = chosen(x, 5);
    Square square; Strip strip(x & 15); const Shape* shape = x & 1 ? (const Shape*)&square : &strip; o[5] = shape->area(x);
    unsigned r = x;
    switch (x % 11) { case 0: r += 17; break; case 1: r ^= 0x55; break; case 2: r *= 3; case 3: r -= 9; break; case 4: r = r << 3 | r >> 29; break; case 5: r = ~r; break; case 6: r = __brev(r); break; case 7: r %= 1000; break; case 8: r /= 7; break; default: r = 1; }
    o[6] = r;
    unsigned a[10]; for (int n = 0; n < 10; ++n) a[n] = in[(i + n) & 127] % 100;
    o[7] = quicksort_sum(a, 0, 9);
}
