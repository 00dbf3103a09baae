// How many steps of n -> n/2 or 3n + 1 lead from first + i to 1: a loop that every lane leaves at another time.
extern "C" __global__ void collatz(unsigned* steps, unsigned first, unsigned count)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    unsigned long long n = first + i;
    unsigned taken = 0;
    while (n != 1) {
        n = n & 1 ? 3 * n + 1 : n / 2;
        ++taken;
    }
    steps[i] = taken;
}
