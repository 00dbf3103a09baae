// 02_errors.cu: out[i] = table[index[i]], by a program that knows how launches fail.
// Idea:    a launch fails in two ways. One that is refused never begins: cudaGetLastError() says so behind it and
//          forgets it, and the program may try another shape. One that begins and fails tells nobody until somebody
//          waits for it; that error stays, every later call returns it, and all that is left is to say so and to end.
// Limits:  a block has 1 to 1,024 threads, a grid at least one block; index.bin may be wrong, the kernel looks
// Program: 02_errors m n block reads table.bin, m floats, and index.bin, n ints, and writes out.bin, n floats

#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int USUAL = 256;  // threads in a block where another number is refused

#define CHECK(call) check((call), #call, __LINE__)

void check(cudaError_t error, const char* call, int line)
{
    if (error != cudaSuccess) {
        std::fprintf(stderr, "line %d: %s: %s\n", line, call, cudaGetErrorString(error));
        std::exit(1);
    }
}

__global__ void gather(const float* table, const int* index, float* out, int m, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        assert(index[i] >= 0 && index[i] < m);
        out[i] = table[index[i]];
    }
}

// Launches gather, and returns what the launch itself was refused with. Nothing is to be done for n = 0.
cudaError_t launch(const float* table, const int* index, float* out, int m, int n, int block)
{
    cudaError_t refused = cudaSuccess;
    // BEGIN SOLUTION: launch whole blocks for n numbers, none for n = 0; ask what came of the launch (about 4 lines)
    // END SOLUTION
    return refused;
}

template <typename T>
std::vector<T> read_file(const char* name, size_t count)
{
    std::vector<T> found(count);
    std::FILE* file = std::fopen(name, "rb");
    if (!file || std::fread(found.data(), sizeof(T), count, file) != count) {
        std::fprintf(stderr, "cannot read %zu numbers of %s\n", count, name);
        std::exit(2);
    }
    std::fclose(file);
    return found;
}

void write_floats(const char* name, const std::vector<float>& values)
{
    std::FILE* file = std::fopen(name, "wb");
    if (!file || std::fwrite(values.data(), sizeof(float), values.size(), file) != values.size()) {
        std::fprintf(stderr, "cannot write %s\n", name);
        std::exit(2);
    }
    std::fclose(file);
}

int main(int argc, char** argv)
{
    if (argc != 4) {
        std::fprintf(stderr, "usage: %s m n block\n", argv[0]);
        return 2;
    }
    const int m = std::atoi(argv[1]), n = std::atoi(argv[2]), block = std::atoi(argv[3]);
    const std::vector<float> table = read_file<float>("table.bin", m);
    const std::vector<int> index = read_file<int>("index.bin", n);
    std::vector<float> out(n);

    float *d_table, *d_out;
    int* d_index;
    CHECK(cudaMalloc(&d_table, m * sizeof(float)));
    CHECK(cudaMalloc(&d_index, n * sizeof(int)));
    CHECK(cudaMalloc(&d_out, n * sizeof(float)));
    CHECK(cudaMemcpy(d_table, table.data(), m * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_index, index.data(), n * sizeof(int), cudaMemcpyHostToDevice));

    // A refused launch: say so on stderr, and take USUAL threads. A failed kernel: say so, and return 3.
    // BEGIN SOLUTION: launch with `block` threads, and again where that is refused; wait; tell what failed (about 10 lines)
    // END SOLUTION

    CHECK(cudaMemcpy(out.data(), d_out, n * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(d_table));
    CHECK(cudaFree(d_index));
    CHECK(cudaFree(d_out));
    write_floats("out.bin", out);
    return 0;
}
