// Host threads, each with its stream and its last error.
#include <cstdio>
#include <thread>
#include <vector>

__global__ void fill(int* x, int v, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = v;
}

int main()
{
    const int n = 1000;
    std::vector<int> results(4);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&, t] {
            cudaStream_t stream;
            cudaStreamCreate(&stream);
            int* x;
            cudaMalloc(&x, n * sizeof(int));
            for (int k = 0; k < 20; k++) fill<<<4, 256, 0, stream>>>(x, 100 * t + k, n);
            if (t == 2) fill<<<1, 5000>>>(x, 0, n);
            cudaMemcpyAsync(&results[t], x + n - 1, sizeof(int), cudaMemcpyDeviceToHost, stream);
            cudaStreamSynchronize(stream);
            results[t] += cudaGetLastError() == cudaErrorInvalidConfiguration ? 10000 : 0;
            cudaFree(x);
            cudaStreamDestroy(stream);
        });
    for (auto& t : threads) t.join();
    printf("%d %d %d %d %s\n", results[0], results[1], results[2], results[3], cudaGetErrorName(cudaGetLastError()));
    return 0;
}
/* prints
19 119 10219 319 cudaSuccess
*/
