// embedding_backward.cu: the gradients of both tables of embedding.cu.
// Idea:    a character's gradient is the sum of those rows of dy that stand where it occurs. Nobody knows how often that
//          is, so a block goes through its part of the text with a sum for each character in shared memory: a thread
//          has a column for itself, and no two ever add to the same sum. A second kernel adds the parts in one order,
//          so that every run gives the same numbers. Places are simpler: each occurs once in a text.
// Limits:  one sum for each character and thread in shared memory: an alphabet, not a dictionary.
// Entry:   sum_characters(const int x[BATCH,LENGTH] in, const float dy[TOKENS,COLS] in, float parts[PARTS,VOCAB,COLS] out,
//                         int BATCH, int LENGTH, int VOCAB, int COLS)
// Entry:   add_parts(const float parts[PARTS,VOCAB,COLS] in, float dtable[VOCAB,COLS] out, int BATCH, int LENGTH,
//                    int VOCAB, int COLS)
// Entry:   sum_places(const float dy[TOKENS,COLS] in, float dplaces[LENGTH,COLS] out, int BATCH, int LENGTH, int VOCAB,
//                     int COLS)
// Sizes:   TOKENS = BATCH * LENGTH, PARTS = cdiv(TOKENS, SHARE)
// Needs:   VOCAB <= 384
// Scratch: parts
// Launch:  sum_characters block=(THREADS) grid=(PARTS, cdiv(COLS, THREADS)) shared=4 * THREADS * VOCAB
// Launch:  add_parts block=(THREADS) grid=(cdiv(VOCAB * COLS, THREADS))
// Launch:  sum_places block=(THREADS) grid=(cdiv(LENGTH * COLS, THREADS))

constexpr int THREADS = 64;
constexpr int SHARE = 64;  // characters that a block goes through

extern "C" __global__ void __launch_bounds__(THREADS)
sum_characters(const int* __restrict__ x, const float* __restrict__ dy, float* __restrict__ parts, int BATCH, int LENGTH,
               int VOCAB, int COLS)
{
    extern __shared__ float sums[];  // [VOCAB][THREADS]: a thread touches its own column only, so there is no barrier
    const int t = threadIdx.x;
    const int col = blockIdx.y * THREADS + t;
    const int first = blockIdx.x * SHARE;
    const int end = min(BATCH * LENGTH, first + SHARE);
    for (int c = 0; c < VOCAB; ++c) {
        sums[c * THREADS + t] = 0.0f;
    }
    if (col >= COLS) {
        return;
    }
    for (int token = first; token < end; ++token) {
        sums[x[token] * THREADS + t] += dy[static_cast<size_t>(token) * COLS + col];
    }
    for (int c = 0; c < VOCAB; ++c) {
        parts[(static_cast<size_t>(blockIdx.x) * VOCAB + c) * COLS + col] = sums[c * THREADS + t];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
add_parts(const float* __restrict__ parts, float* __restrict__ dtable, int BATCH, int LENGTH, int VOCAB, int COLS)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    const int count = (BATCH * LENGTH + SHARE - 1) / SHARE;
    if (i < VOCAB * COLS) {
        float sum = 0.0f;
        for (int part = 0; part < count; ++part) {
            sum += parts[static_cast<size_t>(part) * VOCAB * COLS + i];
        }
        dtable[i] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
sum_places(const float* __restrict__ dy, float* __restrict__ dplaces, int BATCH, int LENGTH, int VOCAB, int COLS)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < LENGTH * COLS) {
        float sum = 0.0f;
        for (int text = 0; text < BATCH; ++text) {
            sum += dy[static_cast<size_t>(text) * LENGTH * COLS + i];
        }
        dplaces[i] = sum;
    }
}
