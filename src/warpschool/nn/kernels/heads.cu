// heads.cu: rows of all heads' numbers, character by character, to tables of one head each; or back.
// Idea:    a product makes queries, keys and values of all heads in one row for each character; attention wants a table
//          for each head. SHARES of them stand beside each other in a row: 3, or 1 for attention's result. A thread
//          moves four numbers.
// Entry:   rearrange(const float x[COUNT] in, float y[COUNT] out, int BATCH, int LENGTH, int SHARES, int HEADS, int back)
// Sizes:   COUNT = BATCH * LENGTH * SHARES * HEADS * D
// Needs:   back >= 0, back <= 1, BATCH * LENGTH * SHARES * HEADS * D <= 2147483647
// Launch:  rearrange block=(THREADS) grid=(cdiv(BATCH * LENGTH * SHARES * HEADS * QUADS, THREADS))

constexpr int D = 64;  // numbers of a head
constexpr int QUADS = D / 4;
constexpr int THREADS = 256;

static_assert(D % 4 == 0, "numbers are moved four at a time");

extern "C" __global__ void __launch_bounds__(THREADS)
rearrange(const float* __restrict__ x, float* __restrict__ y, int BATCH, int LENGTH, int SHARES, int HEADS, int back)
{
    const int in_rows = blockIdx.x * THREADS + threadIdx.x;
    const int quad = in_rows % QUADS;
    const int head = in_rows / QUADS % HEADS;
    const int share = in_rows / (QUADS * HEADS) % SHARES;
    const int token = in_rows / (QUADS * HEADS * SHARES);
    const int text = token / LENGTH;
    const int in_heads = (((share * BATCH + text) * HEADS + head) * LENGTH + token % LENGTH) * QUADS + quad;
    if (text < BATCH) {
        const float4* from = reinterpret_cast<const float4*>(x);
        float4* to = reinterpret_cast<float4*>(y);
        to[back ? in_rows : in_heads] = from[back ? in_heads : in_rows];
    }
}
