// 01_relu.cu: y = max(x + bias, 0), with one bias for each channel.
// Idea:    a convolution's results are sums of products; a network adds a bias to each and makes all that is below
//          zero zero. One thread for each element: its channel follows from its place.
// Limits:  all of x is read and all of y written for one addition: memory takes the time. 03 and 09 do without.
// Entry:   relu(const float x[BATCH,C,P] in, const float bias[C] in, float y[BATCH,C,P] out, int BATCH, int C, int P)
// Needs:   BATCH * C * P <= 2000000000
// Launch:  relu block=(THREADS) grid=(cdiv(BATCH * C * P, THREADS))

constexpr int THREADS = 256;

extern "C" __global__ void relu(const float* __restrict__ x, const float* __restrict__ bias, float* __restrict__ y,
                                int BATCH, int C, int P)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;  // a channel has P elements, an image C channels

    // BEGIN SOLUTION: the element's channel, its bias, and nothing below zero (about 4 lines)
    // END SOLUTION
}
