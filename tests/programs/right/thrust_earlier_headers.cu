// What all of Thrust's headers brought along until CUDA 12, not only its vectors: pairs, tuples, function objects and std::cout.
#include <thrust/device_ptr.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/zip_iterator.h>

typedef thrust::zip_iterator<thrust::tuple<thrust::counting_iterator<int>, thrust::device_ptr<int>>> Numbered;

struct Even : thrust::unary_function<int, bool> {
    __host__ __device__ bool operator()(int value) const { return value % 2 == 0; }
};

__global__ void add(Numbered numbered, int n)
{
    if (threadIdx.x >= n) return;
    int number = thrust::identity<int>()(thrust::get<0>(numbered[threadIdx.x]));
    bool odd = thrust::not1(Even())(number), more = thrust::not2(thrust::less<int>())(number, 8);
    thrust::pair<int, int> found = thrust::make_pair(number, odd ? 100 : more ? 200 : 300);
    thrust::get<1>(numbered[threadIdx.x]) = thrust::plus<int>()(found.first, found.second);
}

int main()
{
    const int n = 3;
    int *on_device, values[n];
    cudaMalloc(&on_device, sizeof values);
    thrust::device_ptr<int> to(on_device);
    add<<<1, 32>>>(thrust::make_zip_iterator(thrust::make_tuple(thrust::make_counting_iterator(7), to)), n);
    cudaMemcpy(values, on_device, sizeof values, cudaMemcpyDeviceToHost);
    for (int value : values) std::cout << value << std::endl;
    cudaFree(on_device);
    return 0;
}
/* prints
107
208
109
*/
