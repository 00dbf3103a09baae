// Kernel templates, lambdas, namespaces, structures by value.
// options: --extended-lambda
#include <cstdio>

namespace mine {
struct Affine {
    double scale;
    int shift;
    __device__ double operator()(double x) const { return scale * x + shift; }
};
template <typename T, int N, typename F>
__global__ void apply(T* x, F f)
{
    if (threadIdx.x < N) x[threadIdx.x] = f(x[threadIdx.x]);
}
}  // namespace mine

template <typename T>
void check(const char* name)
{
    T host[4] = {1, 2, 3, 4}, *d;
    cudaMalloc(&d, sizeof host);
    cudaMemcpy(d, host, sizeof host, cudaMemcpyHostToDevice);
    mine::apply<T, 4><<<1, 32>>>(d, mine::Affine{2, 1});
    int by = 10;
    mine::apply<T, 2><<<1, 32>>>(d, [=] __device__(T v) { return v * by; });
    cudaMemcpy(host, d, sizeof host, cudaMemcpyDeviceToHost);
    printf("%s %g %g %g %g\n", name, double(host[0]), double(host[1]), double(host[2]), double(host[3]));
    cudaFree(d);
}

int main()
{
    check<int>("int");
    check<float>("float");
    check<double>("double");
    return 0;
}
/* prints
int 30 50 7 9
float 30 50 7 9
double 30 50 7 9
*/
