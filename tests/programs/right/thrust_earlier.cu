// What Thrust's vectors brought along until CUDA 12: pairs, tuples, function objects and std::cout.
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>

typedef thrust::pair<int, int> Span;
typedef thrust::tuple<int, float> Named;

__global__ void longer(Span* spans, int n)
{
    if (threadIdx.x < n) spans[threadIdx.x].second += thrust::plus<int>()(spans[threadIdx.x].first, 1);
}

int main()
{
    thrust::host_vector<Span> spans(3);
    for (int i = 0; i < 3; i++) spans[i] = thrust::make_pair(i, 10 * i);
    thrust::device_vector<Span> on_device = spans;
    longer<<<1, 32>>>(thrust::raw_pointer_cast(on_device.data()), 3);
    spans = on_device;
    Named named = thrust::make_tuple(7, 0.5f);
    for (int i = 0; i < 3; i++) std::cout << spans[i].first << " " << spans[i].second << std::endl;
    std::cout << thrust::get<0>(named) << " " << thrust::get<1>(named) << std::endl;
    return 0;
}
/* prints
0 1
1 12
2 23
7 0.5
*/
