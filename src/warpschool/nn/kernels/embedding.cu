// embedding.cu: a row for each character: that of the character, plus that of its place.
// Idea:    a block has a character; its threads go along the row.
// Entry:   embed(const int x[BATCH,LENGTH] in, const float table[VOCAB,COLS] in, const float places[LENGTH,COLS] in,
//                float y[TOKENS,COLS] out, int BATCH, int LENGTH, int VOCAB, int COLS)
// Sizes:   TOKENS = BATCH * LENGTH
// Launch:  embed block=(THREADS) grid=(TOKENS)

constexpr int THREADS = 128;

extern "C" __global__ void __launch_bounds__(THREADS)
embed(const int* __restrict__ x, const float* __restrict__ table, const float* __restrict__ places,
      float* __restrict__ y, int BATCH, int LENGTH, int VOCAB, int COLS)
{
    const size_t own = static_cast<size_t>(blockIdx.x) * COLS;
    const float* character = table + static_cast<size_t>(x[blockIdx.x]) * COLS;
    const float* place = places + static_cast<size_t>(blockIdx.x % LENGTH) * COLS;
    for (int col = threadIdx.x; col < COLS; col += THREADS) {
        y[own + col] = character[col] + place[col];
    }
}
