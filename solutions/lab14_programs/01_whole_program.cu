// 01_whole_program.cu: z = a * x + y as a whole program: allocate, copy, launch, copy back, free.
// Idea:    the host's memory and the device's are two. The host asks for memory over there, sends what the kernel
//          reads, launches it, fetches what it wrote, and gives the memory back. Each of these calls can fail and says
//          so by what it returns; a launch returns nothing, so it is asked for by cudaGetLastError().
// Limits:  twelve bytes a number pass the link between host and device for two operations: copies decide the time.
// Program: 01_whole_program n a reads x.bin and y.bin, n floats each, and writes z.bin, n floats

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int BLOCK = 256;  // threads in a block

// Every call of the runtime goes through this: its text and its line are what a message needs.
#define CHECK(call) check((call), #call, __LINE__)

void check(cudaError_t error, const char* call, int line)
{
    // BEGIN SOLUTION: after an error, say on stderr what failed, where and why, and end with status 1 (about 4 lines)
    if (error != cudaSuccess) {
        std::fprintf(stderr, "line %d: %s: %s\n", line, call, cudaGetErrorString(error));
        std::exit(1);
    }
    // END SOLUTION
}

__global__ void saxpy(const float* x, const float* y, float* z, float a, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        z[i] = a * x[i] + y[i];
    }
}

std::vector<float> read_floats(const char* name, size_t count)
{
    std::vector<float> found(count);
    std::FILE* file = std::fopen(name, "rb");
    if (!file || std::fread(found.data(), sizeof(float), count, file) != count) {
        std::fprintf(stderr, "cannot read %zu floats of %s\n", count, name);
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
    if (argc != 3) {
        std::fprintf(stderr, "usage: %s n a\n", argv[0]);
        return 2;
    }
    const int n = std::atoi(argv[1]);
    const float a = std::atof(argv[2]);
    const std::vector<float> x = read_floats("x.bin", n), y = read_floats("y.bin", n);
    std::vector<float> z(n);

    // BEGIN SOLUTION: allocate x, y and z on the device, copy, launch, copy back, free; check every call (about 13 lines)
    const size_t bytes = n * sizeof(float);
    float *d_x, *d_y, *d_z;  // d_: addresses of the device's, which the host must not follow
    CHECK(cudaMalloc(&d_x, bytes));
    CHECK(cudaMalloc(&d_y, bytes));
    CHECK(cudaMalloc(&d_z, bytes));
    CHECK(cudaMemcpy(d_x, x.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_y, y.data(), bytes, cudaMemcpyHostToDevice));
    saxpy<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(d_x, d_y, d_z, a, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(z.data(), d_z, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(d_x));
    CHECK(cudaFree(d_y));
    CHECK(cudaFree(d_z));
    // END SOLUTION

    write_floats("z.bin", z);
    return 0;
}
