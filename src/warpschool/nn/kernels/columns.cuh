    const int TY = (OH + TILE - 1) / TILE;
    const int TX = (OW + TILE - 1) / TILE;
    const int P = BATCH * TY * TX;
    const int p = blockIdx.x * THREADS + threadIdx.x;
    const int f = blockIdx.y;
    if (p >= P) return;
    const float* from = M + static_cast<size_t>(f) * P + p;
    const size_t position = static_cast<size_t>(F) * P;
    float middle[TILE][SIDE];
    #pragma unroll
    for (int j = 0; j < SIDE; ++j) {
        float column[SIDE];
        float numbers[TILE];
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) column[i] = from[(i * SIDE + j) * position];
        transform(numbers, column);
        #pragma unroll
        for (int i = 0; i < TILE; ++i) middle[i][j] = numbers[i];
    }
