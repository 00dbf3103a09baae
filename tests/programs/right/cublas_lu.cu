// LU of a batch of matrices: factors, pivots, solutions, inverses; a singular one is told.
// options: -lcublas
#include <cublas_v2.h>

#include <cmath>
#include <cstdio>

const int n = 4, batch = 3;

double at(const double* m, int row, int column) { return m[column * n + row]; }

int main() {
    double *given, *factors, *inverse, *right, **lists[3];
    int *pivots, *info, told = -1;
    cudaMallocManaged(&given, batch * n * n * sizeof(double));
    cudaMallocManaged(&factors, batch * n * n * sizeof(double));
    cudaMallocManaged(&inverse, batch * n * n * sizeof(double));
    cudaMallocManaged(&right, batch * n * sizeof(double));
    cudaMallocManaged(&pivots, batch * n * sizeof(int));
    cudaMallocManaged(&info, batch * sizeof(int));
    double* of[] = {factors, inverse, right};
    for (int list = 0; list < 3; list++) {
        cudaMallocManaged(&lists[list], batch * sizeof(double*));
        for (int k = 0; k < batch; k++) lists[list][k] = of[list] + k * (list == 2 ? n : n * n);
    }
    for (int k = 0; k < batch; k++)
        for (int c = 0; c < n; c++)
            for (int r = 0; r < n; r++)  // the last matrix has two equal columns
                given[k * n * n + c * n + r] = factors[k * n * n + c * n + r] = k < 2 ? (r * 7 + c * c * 3 + k) % 11 - (r == c) : (r + 1) * (c / 2 + 1) + r * r * (c / 2);
    cublasHandle_t handle;
    cublasCreate(&handle);
    cublasStatus_t status = cublasDgetrfBatched(handle, n, lists[0], n, pivots, info, batch);
    printf("factors %s: %d %d %s\n", cublasGetStatusName(status), info[0], info[1], info[2] ? "singular" : "regular");
    bool small = true;
    for (int k = 0; k < 2; k++)
        for (int c = 0; c < n; c++)
            for (int r = c + 1; r < n; r++) small = small && std::fabs(at(factors + k * n * n, r, c)) <= 1;
    printf("no factor is above 1: %s\n", small ? "yes" : "no");

    cublasDgetriBatched(handle, n, lists[0], n, pivots, lists[1], n, info, 2);
    double most = 0;
    for (int k = 0; k < 2; k++)
        for (int r = 0; r < n; r++)
            for (int c = 0; c < n; c++) {
                double sum = -(r == c);
                for (int i = 0; i < n; i++) sum += at(given + k * n * n, r, i) * at(inverse + k * n * n, i, c);
                most = std::fmax(most, std::fabs(sum));
            }
    printf("inverse: %s\n", most < 1e-12 ? "right" : "wrong");

    for (cublasOperation_t turned : {CUBLAS_OP_N, CUBLAS_OP_T}) {
        for (int i = 0; i < 2 * n; i++) right[i] = i - 3;
        cublasDgetrsBatched(handle, turned, n, 1, lists[0], n, pivots, lists[2], n, &told, 2);
        most = 0;
        for (int k = 0; k < 2; k++)
            for (int r = 0; r < n; r++) {
                double sum = -(k * n + r - 3);
                for (int i = 0; i < n; i++)
                    sum += (turned ? at(given + k * n * n, i, r) : at(given + k * n * n, r, i)) * right[k * n + i];
                most = std::fmax(most, std::fabs(sum));
            }
        printf("solution: %s, %d\n", most < 1e-12 ? "right" : "wrong", told);
    }
    for (int i = 0; i < n * n; i++) factors[i] = i % (n + 1) ? 1 : 4;
    cublasDgetrfBatched(handle, n, lists[0], n, nullptr, info, 1);
    printf("without pivots: %g %g %g, %d\n", factors[0], factors[1], factors[5], info[0]);
    cublasDestroy(handle);
    for (void* p : {(void*)given, (void*)factors, (void*)inverse, (void*)right, (void*)pivots, (void*)info, (void*)lists[0], (void*)lists[1], (void*)lists[2]})
        cudaFree(p);
}
/* prints
factors CUBLAS_STATUS_SUCCESS: 0 0 singular
no factor is above 1: yes
inverse: right
solution: right, 0
solution: right, 0
without pivots: 4 0.25 3.75, 0
*/
