// Sorts 512 keys of a block with their values by a bitonic network, each step of which is written out.
constexpr int KEYS = 512, THREADS = KEYS / 2;

extern "C" __global__ void bitonic_sort(const float* keys, const int* values, float* sorted, int* moved, int count)
{
    __shared__ float key[KEYS];
    __shared__ int value[KEYS];
    const int first = blockIdx.x * KEYS;
#pragma unroll
    for (int i = threadIdx.x; i < KEYS; i += THREADS) {
        key[i] = first + i < count ? keys[first + i] : INFINITY;
        value[i] = first + i < count ? values[first + i] : -1;
    }
#pragma unroll
    for (int size = 2; size <= KEYS; size *= 2)
#pragma unroll
        for (int apart = size / 2; apart > 0; apart /= 2) {
            __syncthreads();
            const int low = 2 * threadIdx.x - (threadIdx.x & apart - 1), high = low + apart;
            const bool rises = (low & size) == 0;
            const float a = key[low], b = key[high];
            if (rises ? a > b : a < b) {
                const int v = value[low];
                key[low] = b, value[low] = value[high];
                key[high] = a, value[high] = v;
            }
        }
    __syncthreads();
#pragma unroll
    for (int i = threadIdx.x; i < KEYS; i += THREADS)
        if (first + i < count) {
            sorted[first + i] = key[i];
            moved[first + i] = value[i];
        }
}
