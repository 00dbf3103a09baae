// last_of_equals.cu: later ones of equals win.
// Entry:   argmax(const float x[BATCH,CLASSES] in, int label[BATCH] out, int BATCH, int CLASSES)
// Launch:  argmax block=(THREADS) grid=(cdiv(BATCH, THREADS))

// expect: WA

constexpr int THREADS = 128;  // and images of a block
constexpr int HALF = 16;      // threads that reduce one image's scores together, where that is done

extern "C" __global__ void argmax(const float* __restrict__ x, int* __restrict__ label, int BATCH, int CLASSES)
{
    const int image = blockIdx.x * THREADS + threadIdx.x;
    if (image < BATCH) {
        const float* scores = x + static_cast<size_t>(image) * CLASSES;
        int best = 0;
        float largest = scores[0];
        for (int i = 1; i < CLASSES; ++i) {
            const float score = scores[i];
            if (score >= largest) {
                largest = score;
                best = i;
            }
        }
        label[image] = best;
    }
}
