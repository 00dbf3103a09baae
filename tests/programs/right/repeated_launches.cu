// A launch that is like one before it sees what was changed between the two, whoever changed it.
#include <cstdio>

__constant__ int factor[2] = {1, 0};
__device__ int offset = 0;

__global__ void map(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * factor[0] + offset;
}
__global__ void set(int* x, int n, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = value;
}
__global__ void count(int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += 1;
}
__global__ void read(cudaTextureObject_t texture, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tex1Dfetch<int>(texture, i);
}

const int n = 1 << 18;
int *x, *y, *shared, *host;

template <typename Launch>
void thrice(const char* what, Launch launch) {
    for (int k = 0; k < 3; k++) launch();
    cudaMemcpy(host, y, n * sizeof(int), cudaMemcpyDeviceToHost);
    long long sum = 0;
    for (int i = 0; i < n; i++) sum += host[i];
    printf("%s: %lld %lld\n", what, sum / n, sum % n);
}

int main() {
    cudaMalloc(&x, n * sizeof(int));
    cudaMalloc(&y, n * sizeof(int));
    cudaMallocManaged(&shared, n * sizeof(int));
    host = new int[n];
    auto maps = [] { map<<<n / 256, 256>>>(x, y, n); };
    cudaMemset(x, 0, n * sizeof(int));
    thrice("zeros", maps);
    for (int i = 0; i < n; i++) host[i] = 7;
    cudaMemcpy(x, host, n * sizeof(int), cudaMemcpyHostToDevice);
    thrice("a copy", maps);
    set<<<n / 256, 256>>>(x, n, 8);
    thrice("another kernel", maps);
    cudaMemset(x, 1, n / 2);
    thrice("part of it", maps);
    int three = 3;
    cudaMemcpyToSymbol(factor, &three, sizeof three);
    thrice("a constant", maps);
    cudaMemcpyToSymbol(offset, &three, sizeof three);
    thrice("a variable", maps);
    cudaMemset(y, 0, n * sizeof(int));
    thrice("what it wrote", maps);
    set<<<n / 256, 256>>>(y, n, 5);
    thrice("its own result, counted", [] { count<<<n / 256, 256>>>(y, n); });
    thrice("and mapped anew", maps);
    for (int value = 1; value < 3; value++) {
        for (int i = 0; i < n; i++) shared[i] = value;
        thrice("the host's memory", [] {
            map<<<n / 256, 256>>>(shared, y, n);
            cudaDeviceSynchronize();
        });
    }
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear, resource.res.linear.devPtr = x, resource.res.linear.sizeInBytes = n * sizeof(int);
    resource.res.linear.desc = cudaCreateChannelDesc<int>();
    cudaTextureDesc how = {};
    cudaTextureObject_t texture;
    cudaCreateTextureObject(&texture, &resource, &how, nullptr);
    auto reads = [=] { read<<<n / 256, 256>>>(texture, y, n); };
    thrice("a texture", reads);
    set<<<n / 256, 256>>>(x, n, 4);
    thrice("what it shows", reads);
    cudaDestroyTextureObject(texture);
    int* other;
    cudaFree(x);
    cudaMalloc(&x, n * sizeof(int));
    cudaMalloc(&other, n * sizeof(int));
    set<<<n / 256, 256>>>(x, n, 9);
    thrice("fresh memory", maps);
    cudaFree(x), cudaFree(y), cudaFree(other), cudaFree(shared);
    delete[] host;
}
/* prints
zeros: 0 0
a copy: 7 0
another kernel: 8 0
part of it: 2105383 32768
a constant: 6316149 98304
a variable: 6316152 98304
what it wrote: 6316152 98304
its own result, counted: 8 0
and mapped anew: 6316152 98304
the host's memory: 6 0
the host's memory: 9 0
a texture: 2105383 32768
what it shows: 4 0
fresh memory: 30 0
*/
