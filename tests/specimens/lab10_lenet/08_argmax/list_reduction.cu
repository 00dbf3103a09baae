// list_reduction.cu: the given reduction by halves, right and slow.
// Entry:   argmax(const float x[BATCH,CLASSES] in, int label[BATCH] out, int BATCH, int CLASSES)
// Launch:  argmax block=(THREADS) grid=(cdiv(BATCH, THREADS))

// expect: PERF

constexpr int THREADS = 128;  // and images of a block
constexpr int HALF = 16;      // threads that reduce one image's scores together, where that is done

extern "C" __global__ void argmax(const float* __restrict__ x, int* __restrict__ label, int BATCH, int CLASSES)
{
    // The ECE 408 report's list reduction, which its authors did not use: measure it, then write something better.
    __shared__ float values[THREADS];
    __shared__ int places[THREADS];
    const int lane = threadIdx.x % HALF;
    for (int round = 0; round < HALF; ++round) {  // THREADS / HALF images at a time
        const int image = blockIdx.x * THREADS + round * (THREADS / HALF) + threadIdx.x / HALF;
        values[threadIdx.x] = -3.0e38f;
        places[threadIdx.x] = lane;
        for (int i = lane; i < CLASSES && image < BATCH; i += HALF) {
            const float score = x[static_cast<size_t>(image) * CLASSES + i];
            if (score > values[threadIdx.x]) {
                values[threadIdx.x] = score;
                places[threadIdx.x] = i;
            }
        }
        __syncthreads();
        for (int half = HALF / 2; half > 0; half /= 2) {
            if (lane < half) {
                const float other = values[threadIdx.x + half];
                const int place = places[threadIdx.x + half];
                const bool first = other == values[threadIdx.x] && place < places[threadIdx.x];
                if (other > values[threadIdx.x] || first) {
                    values[threadIdx.x] = other;
                    places[threadIdx.x] = place;
                }
            }
            __syncthreads();
        }
        if (lane == 0 && image < BATCH) label[image] = places[threadIdx.x];
        __syncthreads();  // before the next images' scores come
    }
}
