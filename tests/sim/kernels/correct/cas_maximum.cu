// A float maximum by compare and swap, as the programming guide writes it.
// launch: grid=3 block=64
extern "C" __global__ void k(const float* x, float* y, int* state, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    int* place = state;
    int old = *place, assumed;
    do {
        assumed = old;
        old = atomicCAS(place, assumed, __float_as_int(fmaxf(x[i], __int_as_float(assumed))));
    } while (assumed != old);
}
