// Thrust: a sort, a sum, a transformation, a scan.
#include <cstdio>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

struct Square {
    __host__ __device__ int operator()(int x) const { return x * x; }
};

int main()
{
    thrust::device_vector<int> x(1000), y(1000);
    thrust::sequence(x.begin(), x.end());
    thrust::transform(x.begin(), x.end(), y.begin(), Square());
    printf("%d\n", thrust::reduce(y.begin(), y.end(), 0, thrust::plus<int>()));
    thrust::sort(y.begin(), y.end(), thrust::greater<int>());
    printf("%d %d\n", int(y[0]), int(y[999]));
    thrust::inclusive_scan(x.begin(), x.end(), y.begin());
    printf("%d\n", int(y[999]));
    return 0;
}
/* prints
332833500
998001 0
499500
*/
