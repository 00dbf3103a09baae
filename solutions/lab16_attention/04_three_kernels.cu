// 04_three_kernels.cu: attention as it is written: S = Q K^T / sqrt(D), P = softmax(S), O = P V, for each head.
// Idea:    two products of matrices with a softmax between them. Scores and probabilities are matrices of N x N: each
//          is written and read once, and the longer the text, the more of all bytes they are. With causal = 1 a
//          query may look at itself and at what comes before it: tiles above the diagonal are neither computed nor
//          read, and within a tile scores beyond it become minus infinity.
// Limits:  memory for 2 * HEADS * N * N numbers, and the way there and back for each.
// Entry:   scores(const float Q[HEADS,N,D] in, const float K[HEADS,N,D] in, float S[HEADS,N,N] out, int causal,
//                 int HEADS, int N)
// Entry:   softmax(const float S[HEADS,N,N] in, float P[HEADS,N,N] out, float L[HEADS,N] out, int causal, int HEADS,
//                  int N)
// Entry:   weigh(const float P[HEADS,N,N] in, const float V[HEADS,N,D] in, float O[HEADS,N,D] out, int causal,
//                int HEADS, int N)
// Needs:   causal >= 0, causal <= 1, HEADS <= 65535
// Scratch: S, P
// Launch:  scores block=(TS, ROWS) grid=(cdiv(N, TS), cdiv(N, TS), HEADS)
// Launch:  softmax block=(TS, ROWS) grid=(cdiv(N, ROWS), HEADS)
// Launch:  weigh block=(TS, ROWS) grid=(cdiv(D, TS), cdiv(N, TS), HEADS)
// Usual:   causal = 0

constexpr int D = 64;     // numbers of a query, a key, a value
constexpr int TS = 32;    // a block computes TS x TS numbers; a warp has a row of them
constexpr int ROWS = 8;   // threads down a tile: each computes WPT numbers, ROWS apart
constexpr int WPT = TS / ROWS;
constexpr unsigned ALL = 0xffffffffu;

static_assert(D % TS == 0, "tiles cover queries, keys and values exactly");

// 1 / sqrt(D), without a square root of the host's.
__device__ float scale() { return rsqrtf(static_cast<float>(D)); }

extern "C" __global__ void __launch_bounds__(TS * ROWS)
scores(const float* __restrict__ Q, const float* __restrict__ K, float* __restrict__ S, int causal, int HEADS, int N)
{
    __shared__ float tileQ[TS][TS];
    __shared__ float tileK[TS][TS + 1];  // a warp reads a column: its rows lie in different banks
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row0 = blockIdx.y * TS;  // queries
    const int col0 = blockIdx.x * TS;  // keys
    // BEGIN SOLUTION: nothing is to be done above the diagonal (about 1 line)
    if (causal && col0 > row0 + TS - 1) return;
    // END SOLUTION
    const size_t head = static_cast<size_t>(blockIdx.z) * N;
    float sum[WPT] = {};
    for (int d0 = 0; d0 < D; d0 += TS) {
        for (int i = 0; i < TS; i += ROWS) {
            const int row = row0 + y + i;
            const int col = col0 + y + i;
            tileQ[y + i][x] = row < N ? Q[(head + row) * D + d0 + x] : 0.0f;
            tileK[y + i][x] = col < N ? K[(head + col) * D + d0 + x] : 0.0f;
        }
        __syncthreads();
        for (int d = 0; d < TS; ++d) {
            for (int i = 0; i < WPT; ++i) {
                sum[i] += tileQ[y + i * ROWS][d] * tileK[x][d];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < WPT; ++i) {
        const int row = row0 + y + i * ROWS;
        const int col = col0 + x;
        if (row < N && col < N) {
            // BEGIN SOLUTION: scaled; minus infinity where the query may not look (about 2 lines)
            const bool hidden = causal && col > row;
            S[(head + row) * N + col] = hidden ? -INFINITY : sum[i] * scale();
            // END SOLUTION
        }
    }
}

// One warp for each row; L is the logarithm of the sum of all exp(score), from which P can be had again.
extern "C" __global__ void __launch_bounds__(TS * ROWS)
softmax(const float* __restrict__ S, float* __restrict__ P, float* __restrict__ L, int causal, int HEADS, int N)
{
    const int lane = threadIdx.x;
    const int row = blockIdx.x * ROWS + threadIdx.y;
    if (row >= N) return;  // a whole warp
    const size_t begin = (static_cast<size_t>(blockIdx.y) * N + row) * N;
    const int end = causal ? min(N, (row / TS + 1) * TS) : N;  // to the end of the tile that the diagonal crosses
    float largest = -INFINITY;
    float sum = 0.0f;
    // BEGIN SOLUTION: the row's largest score, then the sum of exp(score - largest), over all lanes (about 12 lines)
    for (int i = lane; i < end; i += TS) {
        largest = fmaxf(largest, S[begin + i]);
    }
    for (int distance = TS / 2; distance > 0; distance /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(ALL, largest, distance));
    }
    for (int i = lane; i < end; i += TS) {
        sum += expf(S[begin + i] - largest);
    }
    for (int distance = TS / 2; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(ALL, sum, distance);
    }
    // END SOLUTION
    for (int i = lane; i < end; i += TS) {
        P[begin + i] = expf(S[begin + i] - largest) / sum;
    }
    if (lane == 0) {
        L[static_cast<size_t>(blockIdx.y) * N + row] = largest + logf(sum);
    }
}

extern "C" __global__ void __launch_bounds__(TS * ROWS)
weigh(const float* __restrict__ P, const float* __restrict__ V, float* __restrict__ O, int causal, int HEADS, int N)
{
    __shared__ float tileP[TS][TS];
    __shared__ float tileV[TS][TS];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row0 = blockIdx.y * TS;
    const int col0 = blockIdx.x * TS;
    const size_t head = static_cast<size_t>(blockIdx.z) * N;
    int end = N;  // keys that any query of this tile looks at
    // BEGIN SOLUTION: up to the last query of the tile, if causal (about 1 line)
    if (causal) end = min(N, row0 + TS);
    // END SOLUTION
    float sum[WPT] = {};
    for (int k0 = 0; k0 < end; k0 += TS) {
        for (int i = 0; i < TS; i += ROWS) {
            const int row = row0 + y + i;
            const int key = k0 + y + i;
            tileP[y + i][x] = row < N && k0 + x < end ? P[(head + row) * N + k0 + x] : 0.0f;
            tileV[y + i][x] = key < end ? V[(head + key) * D + col0 + x] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < TS; ++k) {
            for (int i = 0; i < WPT; ++i) {
                sum[i] += tileP[y + i * ROWS][k] * tileV[k][x];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < WPT; ++i) {
        const int row = row0 + y + i * ROWS;
        if (row < N) {
            O[(head + row) * D + col0 + x] = sum[i];
        }
    }
}
