// smith_waterman.cu: best local alignment of pairs of sequences of 128 letters, by anti-diagonals, a block a pair
// Entry:   align(const int a[PAIRS,128] in, const int b[PAIRS,128] in, int best[PAIRS] out, int PAIRS)
// Launch:  align block=(128) grid=(PAIRS)

constexpr int LENGTH = 128, MATCH = 3, OTHER = -2, GAP = -1;

extern "C" __global__ void align(const int* __restrict__ a, const int* __restrict__ b, int* __restrict__ best, int PAIRS)
{
    __shared__ int diagonal[3][LENGTH + 1];     // scores by row: the last two anti-diagonals and the next one
    __shared__ int other[LENGTH];
    __shared__ int most;
    const int row = threadIdx.x;
    const int mine = a[blockIdx.x * LENGTH + row];
    other[row] = b[blockIdx.x * LENGTH + row];
    for (int k = 0; k < 3; ++k) diagonal[k][row + 1] = 0;
    if (row < 3) diagonal[row][0] = 0;
    if (row == 0) most = 0;
    __syncthreads();
    int highest = 0;
    for (int d = 0; d < 2 * LENGTH - 1; ++d) {
        const int* before = diagonal[(d + 1) % 3];      // two back
        const int* last = diagonal[(d + 2) % 3];
        const int column = d - row;
        int score = 0;
        if (column >= 0 && column < LENGTH) {
            score = max(before[row] + (mine == other[column] ? MATCH : OTHER), max(last[row], last[row + 1]) + GAP);
            score = max(score, 0);
        }
        diagonal[d % 3][row + 1] = score;
        highest = max(highest, score);
        __syncthreads();
    }
    atomicMax(&most, highest);
    __syncthreads();
    if (row == 0) best[blockIdx.x] = most;
}
