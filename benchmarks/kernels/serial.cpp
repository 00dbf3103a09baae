// serial.cpp: what one thread of a CPU takes for the layers of the digits' network and for im2col, as plain loops.
//          serial IMAGES     prints a line of JSON: name -> milliseconds, the least of three runs (convolutions: one)

#include <algorithm>
#include <cfloat>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

using Floats = std::vector<float>;

static Floats noise(size_t count)
{
    Floats values(count);
    unsigned state = 12345;
    for (float& value : values) {
        state = state * 1664525u + 1013904223u;
        value = static_cast<float>(state >> 8) / (1 << 23) - 1.0f;
    }
    return values;
}

template <typename Work>
static double least_ms(int runs, const Work& work)
{
    double least = DBL_MAX;
    for (int run = 0; run < runs; ++run) {
        const auto start = std::chrono::steady_clock::now();
        work();
        const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
        least = std::min(least, taken.count());
    }
    return least;
}

static void convolve(const float* x, const float* w, float* y, int n, int C, int H, int F, int R)
{
    const int O = H - R + 1;
    for (int i = 0; i < n; ++i)
        for (int f = 0; f < F; ++f)
            for (int row = 0; row < O; ++row)
                for (int col = 0; col < O; ++col) {
                    float sum = 0.0f;
                    for (int c = 0; c < C; ++c)
                        for (int r = 0; r < R; ++r)
                            for (int s = 0; s < R; ++s)
                                sum += x[((i * C + c) * H + row + r) * H + col + s] * w[((f * C + c) * R + r) * R + s];
                    y[((i * F + f) * O + row) * O + col] = sum;
                }
}

static void pool(const float* x, float* y, long planes, int H)
{
    for (long plane = 0; plane < planes; ++plane)
        for (int row = 0; row < H / 2; ++row)
            for (int col = 0; col < H / 2; ++col) {
                const float* at = x + (plane * H + 2 * row) * H + 2 * col;
                y[(plane * (H / 2) + row) * (H / 2) + col] = (at[0] + at[1] + at[H] + at[H + 1]) / 4;
            }
}

static void im2col(const float* x, float* cols, int C, int H, int R)  // padded so that the result is H x H
{
    const int pad = R / 2;
    for (int c = 0; c < C; ++c)
        for (int r = 0; r < R; ++r)
            for (int s = 0; s < R; ++s)
                for (int row = 0; row < H; ++row)
                    for (int col = 0; col < H; ++col) {
                        const int from = row + r - pad, at = col + s - pad;
                        const bool inside = from >= 0 && from < H && at >= 0 && at < H;
                        *cols++ = inside ? x[(c * H + from) * H + at] : 0.0f;
                    }
}

static void argmax(const float* x, int* label, int n)
{
    for (int i = 0; i < n; ++i) label[i] = static_cast<int>(std::max_element(x + i * 10, x + i * 10 + 10) - (x + i * 10));
}

int main(int count, char** arguments)
{
    const int n = count > 1 ? std::atoi(arguments[1]) : 10000;
    std::printf("{");
    const struct { const char* name; int C, H, F; } layers[] = {{"1", 1, 28, 32}, {"2", 32, 12, 64}};
    for (const auto& layer : layers) {
        const int O = layer.H - 4;
        const Floats x = noise(static_cast<size_t>(n) * layer.C * layer.H * layer.H);
        const Floats w = noise(static_cast<size_t>(layer.F) * layer.C * 25);
        Floats y(static_cast<size_t>(n) * layer.F * O * O), z(y.size() / 4);
        std::printf("\"convolution %s\": %.3f, ", layer.name,
                    least_ms(1, [&] { convolve(x.data(), w.data(), y.data(), n, layer.C, layer.H, layer.F, 5); }));
        std::printf("\"relu %s\": %.3f, ", layer.name,
                    least_ms(3, [&] { for (float& value : y) value = value < 0 ? 0 : value; }));
        std::printf("\"average_pool %s\": %.3f, ", layer.name,
                    least_ms(3, [&] { pool(y.data(), z.data(), static_cast<long>(n) * layer.F, O); }));
    }
    for (int R = 1; R <= 11; R += 2) {
        const Floats x = noise(64 * 32 * 32);
        Floats cols(static_cast<size_t>(64) * R * R * 32 * 32);
        std::printf("\"im2col %d\": %.3f, ", R, least_ms(5, [&] { im2col(x.data(), cols.data(), 64, 32, R); }));
    }
    const Floats scores = noise(static_cast<size_t>(n) * 10);
    std::vector<int> label(n);
    std::printf("\"argmax\": %.4f}\n", least_ms(5, [&] { argmax(scores.data(), label.data(), n); }));
}
