// An owner of device memory with move semantics, errors thrown as exceptions.
#include <cstdio>
#include <stdexcept>
#include <utility>

void check(cudaError_t error)
{
    if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

template <typename T>
class Buffer {
  public:
    explicit Buffer(size_t n) { check(cudaMalloc(&data_, n * sizeof(T))); }
    Buffer(Buffer&& other) : data_(std::exchange(other.data_, nullptr)) {}
    Buffer(const Buffer&) = delete;
    ~Buffer() { cudaFree(data_); }
    T* get() { return data_; }

  private:
    T* data_ = nullptr;
};

__global__ void iota(int* x, int n)
{
    if (threadIdx.x < n) x[threadIdx.x] = threadIdx.x;
}

int main()
{
    Buffer<int> first(100);
    Buffer<int> second = std::move(first);
    iota<<<1, 128>>>(second.get(), 100);
    int value;
    check(cudaMemcpy(&value, second.get() + 99, sizeof value, cudaMemcpyDeviceToHost));
    printf("%d\n", value);
    try {
        Buffer<double> large(size_t(1) << 40);
    } catch (const std::exception& error) {
        printf("%s\n", error.what());
    }
    return 0;
}
/* prints
99
out of memory
*/
