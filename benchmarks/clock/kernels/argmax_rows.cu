// argmax_rows.cu: place of the largest, a warp a row
// Entry:   argmax(const float x[R,C] in, int best[R] out, int R, int C)
// Launch:  argmax block=(32, 4) grid=(cdiv(R, 4))

extern "C" __global__ void argmax(const float* __restrict__ x, int* __restrict__ best, int R, int C)
{
    const int r = blockIdx.x * 4 + threadIdx.y;
    if (r >= R) return;
    float top = -1e30f;
    int place = 0;
    for (int c = threadIdx.x; c < C; c += 32)
        if (x[(size_t)r * C + c] > top) {
            top = x[(size_t)r * C + c];
            place = c;
        }
    for (int step = 16; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(0xffffffff, top, step);
        const int where = __shfl_xor_sync(0xffffffff, place, step);
        if (other > top || (other == top && where < place)) {
            top = other;
            place = where;
        }
    }
    if (threadIdx.x == 0) best[r] = place;
}
