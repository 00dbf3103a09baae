// 03_streams.cu: y = p(x) for a polynomial p, in chunks whose copies and kernels overlap.
// Idea:    a stream does its work in order, several streams do theirs at the same time. Cut into chunks, the next one
//          is on its way to the device while this one is computed and the one before comes back. The device fetches
//          only what cannot be swapped out: the host's arrays are pinned. Events in a stream say how long it took.
// Limits:  the link carries both directions at once: at best the time of one of them, and a chunk's more
// Program: 03_streams n chunks reads x.bin, n floats, writes y.bin, n floats, and prints: elapsed T ms

#include <algorithm>
#include <cstdio>
#include <cstdlib>

constexpr int BLOCK = 256, STREAMS = 4;

#define CHECK(call) check((call), #call, __LINE__)

void check(cudaError_t error, const char* call, int line)
{
    if (error != cudaSuccess) {
        std::fprintf(stderr, "line %d: %s: %s\n", line, call, cudaGetErrorString(error));
        std::exit(1);
    }
}

__global__ void polynomial(const float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float sum = 0.125f;
        for (int k = 0; k < 8; ++k) sum = sum * x[i] + 1.0f / (k + 1);
        y[i] = sum;
    }
}

void read_floats(const char* name, float* into, size_t count)
{
    std::FILE* file = std::fopen(name, "rb");
    if (!file || std::fread(into, sizeof(float), count, file) != count) {
        std::fprintf(stderr, "cannot read %zu floats of %s\n", count, name);
        std::exit(2);
    }
    std::fclose(file);
}

void write_floats(const char* name, const float* values, size_t count)
{
    std::FILE* file = std::fopen(name, "wb");
    if (!file || std::fwrite(values, sizeof(float), count, file) != count) {
        std::fprintf(stderr, "cannot write %s\n", name);
        std::exit(2);
    }
    std::fclose(file);
}

int main(int argc, char** argv)
{
    if (argc != 3) {
        std::fprintf(stderr, "usage: %s n chunks\n", argv[0]);
        return 2;
    }
    const int n = std::atoi(argv[1]), chunks = std::atoi(argv[2]);
    const size_t bytes = n * sizeof(float);
    float *x = nullptr, *y = nullptr, *d_x, *d_y;

    // BEGIN SOLUTION: memory of the host's for x and y from which the device copies by itself (about 2 lines)
    // END SOLUTION

    if (!x || !y) {
        std::fprintf(stderr, "x and y have no memory yet\n");
        return 0;
    }
    read_floats("x.bin", x, n);
    CHECK(cudaMalloc(&d_x, bytes));
    CHECK(cudaMalloc(&d_y, bytes));

    cudaStream_t streams[STREAMS];
    for (cudaStream_t& stream : streams) CHECK(cudaStreamCreate(&stream));
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    float elapsed = 0;

    // Between two events: each chunk goes there, is computed and comes back in one of the streams.
    // BEGIN SOLUTION: record start; all chunks; record stop, wait for it, ask for the time between (about 14 lines)
    // END SOLUTION

    std::printf("elapsed %.6f ms\n", elapsed);
    write_floats("y.bin", y, n);
    for (cudaStream_t stream : streams) CHECK(cudaStreamDestroy(stream));
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(stop));
    CHECK(cudaFreeHost(x));
    CHECK(cudaFreeHost(y));
    CHECK(cudaFree(d_x));
    CHECK(cudaFree(d_y));
    return 0;
}
