// 04_solver.cu: Jacobi's sweeps over a grid, hundreds of kernels on data that stay on the device.
// Idea:    what a loop needs is allocated and copied once, before it. A sweep reads one grid and writes the other; the
//          next one swaps the two pointers, and no byte moves. The host waits only where it wants to know a number.
// Limits:  a copy of the grid each sweep takes longer than the sweep: the link is 60 times slower than the memory
// Program: 04_solver rows cols sweeps every reads u.bin, rows x cols floats, writes v.bin, the grid after all
//          sweeps, and prints "sweep K change C" for each K that is a multiple of `every`

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

constexpr int BLOCK = 16;

#define CHECK(call) check((call), #call, __LINE__)

void check(cudaError_t error, const char* call, int line)
{
    if (error != cudaSuccess) {
        std::fprintf(stderr, "line %d: %s: %s\n", line, call, cudaGetErrorString(error));
        std::exit(1);
    }
}

// after = the mean of each inner point's four neighbours; the border stays. *change becomes the largest |after - before|
// of this sweep and of what it held: floats that are not negative are ordered as their bits are.
__global__ void sweep(const float* before, float* after, int rows, int cols, int* change)
{
    const int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= rows || col >= cols) return;
    const int at = row * cols + col;
    if (row == 0 || col == 0 || row == rows - 1 || col == cols - 1) {
        after[at] = before[at];
        return;
    }
    after[at] = 0.25f * (before[at - cols] + before[at + cols] + before[at - 1] + before[at + 1]);
    atomicMax(change, __float_as_int(fabsf(after[at] - before[at])));
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
    if (argc != 5) {
        std::fprintf(stderr, "usage: %s rows cols sweeps every\n", argv[0]);
        return 2;
    }
    const int rows = std::atoi(argv[1]), cols = std::atoi(argv[2]);
    const int sweeps = std::atoi(argv[3]), every = std::atoi(argv[4]);
    std::vector<float> u = read_floats("u.bin", size_t(rows) * cols);
    const dim3 block(BLOCK, BLOCK), grid((cols + BLOCK - 1) / BLOCK, (rows + BLOCK - 1) / BLOCK);
    const size_t bytes = u.size() * sizeof(float);

    // BEGIN SOLUTION: two grids and `change` on the device; all sweeps; every so often the change; the grid back (about 23 lines)
    float *before, *after;
    int* change;
    CHECK(cudaMalloc(&before, bytes));
    CHECK(cudaMalloc(&after, bytes));
    CHECK(cudaMalloc(&change, sizeof(int)));
    CHECK(cudaMemcpy(before, u.data(), bytes, cudaMemcpyHostToDevice));
    for (int k = 1; k <= sweeps; ++k) {
        const bool asks = k % every == 0;
        if (asks || k == 1) CHECK(cudaMemsetAsync(change, 0, sizeof(int)));
        sweep<<<grid, block>>>(before, after, rows, cols, change);
        CHECK(cudaGetLastError());
        std::swap(before, after);  // the newest grid is `before` of the next sweep
        if (asks) {
            float seen;
            CHECK(cudaMemcpy(&seen, change, sizeof(float), cudaMemcpyDeviceToHost));  // waits for the sweeps
            std::printf("sweep %d change %.9g\n", k, seen);
        }
    }
    CHECK(cudaMemcpy(u.data(), before, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(before));
    CHECK(cudaFree(after));
    CHECK(cudaFree(change));
    // END SOLUTION

    write_floats("v.bin", u);
    return 0;
}
