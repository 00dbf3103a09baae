// random.cpp: cuRAND's calls of the host. Pseudo-random numbers are Philox4x32-10's (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", 2011), whatever generator is asked for: good ones, of the right distributions, and not the bits that NVIDIA's
// library makes. Quasi-random ones are Sobol's, with the direction numbers of Joe and Kuo (2008): for up to ten dimensions here,
// for more out of NVIDIA's library, where that is installed. Its tables are there without a GPU, and programs may have them too.
#include <curand.h>
#include <dlfcn.h>
#include <math.h>

#include <vector>

#include "channel.h"

using namespace warp;

namespace {

struct Generator {
    curandRngType_t type;
    bool on_host;
    uint64_t seed = 0, offset = 0;
    unsigned dimensions = 1;
    cudaStream_t stream = nullptr;
    bool is_quasi() const { return type >= CURAND_RNG_QUASI_DEFAULT; }
};
Generator* of(curandGenerator_t generator) { return reinterpret_cast<Generator*>(generator); }

/// The 32-bit word of a sequence at a position.
class Philox {
  public:
    explicit Philox(uint64_t seed) : seed_(seed) {}
    uint32_t at(uint64_t position) {
        if (position / 4 != block_ || !ready_) make(position / 4);
        return words_[position % 4];
    }

  private:
    void make(uint64_t block) {
        uint32_t c[4] = {uint32_t(block), uint32_t(block >> 32), 0, 0}, k0 = uint32_t(seed_), k1 = uint32_t(seed_ >> 32);
        for (int round = 0; round < 10; round++) {
            uint64_t a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
            uint32_t next[4] = {uint32_t(b >> 32) ^ c[1] ^ k0, uint32_t(b), uint32_t(a >> 32) ^ c[3] ^ k1, uint32_t(a)};
            for (int i = 0; i < 4; i++) c[i] = next[i];
            k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
        }
        for (int i = 0; i < 4; i++) words_[i] = c[i];
        block_ = block, ready_ = true;
    }
    uint64_t seed_, block_ = 0;
    uint32_t words_[4] = {};
    bool ready_ = false;
};

constexpr unsigned kMostDimensions = 10;

/// A function of NVIDIA's library that only hands out tables; null where that is not installed.
template <typename F>
F nvidias(const char* name) {
    static void* library = dlopen(WARPSCHOOL_CURAND, RTLD_NOW | RTLD_LOCAL);
    return library ? reinterpret_cast<F>(dlsym(library, name)) : nullptr;
}

/// Direction numbers of all 20,000 dimensions, 32 of each; null where NVIDIA's library is not installed.
const uint32_t* all_directions() {
    static const uint32_t* const found = [] {
        const uint32_t* table = nullptr;
        auto get = nvidias<curandStatus_t (*)(const uint32_t**, int)>("curandGetDirectionVectors32");
        constexpr int kJoeKuo6 = 101;
        return get && get(&table, kJoeKuo6) == CURAND_STATUS_SUCCESS ? table : nullptr;
    }();
    return found;
}

uint32_t gray_sum(uint64_t index, const uint32_t* direction) {
    uint32_t found = 0;
    for (uint64_t gray = index ^ (index >> 1), k = 0; gray && k < 32; gray >>= 1, k++)
        if (gray & 1) found ^= direction[k];
    return found;
}

/// A point's coordinate in one dimension, as 32 bits.
uint32_t sobol(uint64_t index, unsigned dimension) {
    if (dimension >= kMostDimensions) return gray_sum(index, all_directions() + 32 * dimension);
    struct Polynomial { unsigned degree, coefficients, first[5]; };
    static const Polynomial of_dimension[kMostDimensions - 1] = {
        {1, 0, {1}}, {2, 1, {1, 3}}, {3, 1, {1, 3, 1}}, {3, 2, {1, 1, 1}}, {4, 1, {1, 1, 3, 3}}, {4, 4, {1, 3, 5, 13}},
        {5, 2, {1, 1, 5, 5, 17}}, {5, 4, {1, 1, 5, 5, 5}}, {5, 7, {1, 1, 7, 11, 19}}};
    uint32_t direction[32];
    for (unsigned k = 0; k < 32; k++) {
        if (dimension == 0) {
            direction[k] = 1u << (31 - k);
            continue;
        }
        const Polynomial& p = of_dimension[dimension - 1];
        if (k < p.degree) {
            direction[k] = p.first[k] << (31 - k);
            continue;
        }
        direction[k] = direction[k - p.degree] ^ (direction[k - p.degree] >> p.degree);
        for (unsigned i = 1; i < p.degree; i++)
            if (p.coefficients >> (p.degree - 1 - i) & 1) direction[k] ^= direction[k - i];
    }
    return gray_sum(index, direction);
}

float to_unit(uint32_t x) { return x * 0x1p-32f + 0x1p-33f; }  // in (0, 1], as cuRAND's are
double to_unit(uint64_t x) { return (x >> 11) * 0x1p-53 + 0x1p-54; }

/// Fills an array with make(k), where the simulator lets it; `words` of the sequence are used up.
template <typename T, typename Make>
curandStatus_t fill(Generator* g, T* out, size_t count, uint64_t words, Make make) {
    if (fatal() != cudaSuccess) return CURAND_STATUS_PREEXISTING_FAILURE;
    if (!count) return CURAND_STATUS_SUCCESS;
    if (!g->on_host) {
        size_t bytes = count * sizeof(T);
        Message request(SET);
        request.address(out).u64(bytes).u64(bytes).u64(bytes).u64(1).u64(1).u64(1).u64(0).u64(stream_number(g->stream)).callers();
        if (request.ask().error != cudaSuccess) return CURAND_STATUS_LAUNCH_FAILURE;
    }
    T* to = g->on_host ? out : reinterpret_cast<T*>(arena.reach(out));
    for (size_t k = 0; k < count; k++) to[k] = make(k);
    g->offset += words;
    return CURAND_STATUS_SUCCESS;
}

/// Words of the sequence, or coordinates of points: first all of the first dimension, then of the second.
template <typename T, typename Convert>
curandStatus_t from_words(curandGenerator_t generator, T* out, size_t count, unsigned each, Convert convert) {
    Generator* g = of(generator);
    if (!g) return CURAND_STATUS_NOT_INITIALIZED;
    if (g->is_quasi()) {
        if (count % g->dimensions) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
        size_t points = count / g->dimensions;
        return fill(g, out, count, points, [&](size_t k) {
            uint64_t word = sobol(g->offset + k % points + 1, k / points);
            return convert(each == 2 ? word << 32 : word);
        });
    }
    Philox philox(g->seed);
    return fill(g, out, count, count * each, [&](size_t k) {
        uint64_t low = philox.at(g->offset + each * k);
        return convert(each == 2 ? low | uint64_t(philox.at(g->offset + 2 * k + 1)) << 32 : low);
    });
}

/// Where the normal distribution comes to u: by the formula 26.2.23 of Abramowitz and Stegun, and Newton's steps from there.
double normal_quantile(double u) {
    double tail = u < 0.5 ? u : 1 - u, t = sqrt(-2 * log(tail > 0 ? tail : 0x1p-54));
    double x = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    if (u < 0.5) x = -x;
    for (int step = 0; step < 3; step++) x -= (0.5 * erfc(-x / sqrt(2.0)) - u) * sqrt(2 * M_PI) * exp(x * x / 2);
    return x;
}

/// Normal numbers: of quasi-random ones each by itself, else by Box and Muller, a pair of two uniform ones.
template <typename T, typename Shape>
curandStatus_t normal(curandGenerator_t generator, T* out, size_t count, Shape shape) {
    Generator* g = of(generator);
    if (!g) return CURAND_STATUS_NOT_INITIALIZED;
    if (g->is_quasi())
        return from_words(generator, out, count, 2, [=](uint64_t word) { return static_cast<T>(shape(normal_quantile(to_unit(word)))); });
    if (count % 2) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
    Philox philox(g->seed);
    return fill(g, out, count, 2 * count, [&](size_t k) {
        auto uniform = [&](uint64_t n) {
            uint64_t first = g->offset + 2 * n;
            return to_unit(philox.at(first) | uint64_t(philox.at(first + 1)) << 32);
        };
        double radius = sqrt(-2 * log(uniform(k / 2 * 2))), angle = 2 * M_PI * uniform(k / 2 * 2 + 1);
        return static_cast<T>(shape(radius * (k % 2 ? cos(angle) : sin(angle))));
    });
}

}  // namespace

API curandStatus_t curandCreateGenerator(curandGenerator_t* generator, curandRngType_t type) {
    connect();
    if (!generator) return CURAND_STATUS_NOT_INITIALIZED;
    *generator = reinterpret_cast<curandGenerator_t>(new Generator{type, false});
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandCreateGeneratorHost(curandGenerator_t* generator, curandRngType_t type) {
    curandStatus_t status = curandCreateGenerator(generator, type);
    if (status == CURAND_STATUS_SUCCESS) of(*generator)->on_host = true;
    return status;
}
API curandStatus_t curandDestroyGenerator(curandGenerator_t generator) {
    if (!generator) return CURAND_STATUS_NOT_INITIALIZED;
    delete of(generator);
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandGetVersion(int* version) { *version = 10400; return CURAND_STATUS_SUCCESS; }
API curandStatus_t curandSetStream(curandGenerator_t generator, cudaStream_t stream) { of(generator)->stream = stream; return CURAND_STATUS_SUCCESS; }
API curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator, unsigned long long seed) {
    if (of(generator)->is_quasi()) return CURAND_STATUS_TYPE_ERROR;
    of(generator)->seed = seed, of(generator)->offset = 0;
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandSetGeneratorOffset(curandGenerator_t generator, unsigned long long offset) { of(generator)->offset = offset; return CURAND_STATUS_SUCCESS; }
API curandStatus_t curandSetGeneratorOrdering(curandGenerator_t, curandOrdering_t) { return CURAND_STATUS_SUCCESS; }
API curandStatus_t curandSetQuasiRandomGeneratorDimensions(curandGenerator_t generator, unsigned dimensions) {
    if (!of(generator)->is_quasi()) return CURAND_STATUS_TYPE_ERROR;
    if (!dimensions || dimensions > 20000) return CURAND_STATUS_OUT_OF_RANGE;
    if (dimensions > kMostDimensions && !all_directions())
        return unsupported("curandSetQuasiRandomGeneratorDimensions for more than 10 without NVIDIA's cuRAND"), CURAND_STATUS_OUT_OF_RANGE;
    of(generator)->dimensions = dimensions;
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandGenerateSeeds(curandGenerator_t) { return CURAND_STATUS_SUCCESS; }
API curandStatus_t curandGenerate(curandGenerator_t g, unsigned* out, size_t count) {
    return from_words(g, out, count, 1, [](uint64_t word) { return static_cast<unsigned>(word); });
}
API curandStatus_t curandGenerateLongLong(curandGenerator_t g, unsigned long long* out, size_t count) {
    return from_words(g, out, count, 2, [](uint64_t word) { return static_cast<unsigned long long>(word); });
}
API curandStatus_t curandGenerateUniform(curandGenerator_t g, float* out, size_t count) {
    return from_words(g, out, count, 1, [](uint64_t word) { return to_unit(static_cast<uint32_t>(word)); });
}
API curandStatus_t curandGenerateUniformDouble(curandGenerator_t g, double* out, size_t count) {
    return from_words(g, out, count, 2, [](uint64_t word) { return to_unit(word); });
}
API curandStatus_t curandGenerateNormal(curandGenerator_t g, float* out, size_t count, float mean, float deviation) {
    return normal(g, out, count, [=](double x) { return mean + deviation * x; });
}
API curandStatus_t curandGenerateNormalDouble(curandGenerator_t g, double* out, size_t count, double mean, double deviation) {
    return normal(g, out, count, [=](double x) { return mean + deviation * x; });
}
API curandStatus_t curandGenerateLogNormal(curandGenerator_t g, float* out, size_t count, float mean, float deviation) {
    return normal(g, out, count, [=](double x) { return exp(mean + deviation * x); });
}
API curandStatus_t curandGenerateLogNormalDouble(curandGenerator_t g, double* out, size_t count, double mean, double deviation) {
    return normal(g, out, count, [=](double x) { return exp(mean + deviation * x); });
}
API curandStatus_t curandGeneratePoisson(curandGenerator_t generator, unsigned* out, size_t count, double lambda) {
    if (!(lambda > 0) || lambda > 400000) return CURAND_STATUS_OUT_OF_RANGE;
    return from_words(generator, out, count, 2, [=](uint64_t word) {  // by inversion, from the mode outwards in double precision
        double u = to_unit(word), mode = floor(lambda), at_mode = exp(mode * log(lambda) - lambda - lgamma(mode + 1));
        double up = at_mode, down = at_mode, sum = at_mode;
        unsigned high = static_cast<unsigned>(mode), low = high;
        while (sum < u && (up > 0 || down > 0)) {
            up *= lambda / ++high, sum += up;
            if (sum >= u) return high;
            down = low ? down * low / lambda : 0;
            if (low) low--, sum += down;
            if (sum >= u) return low;
        }
        return static_cast<unsigned>(mode);
    });
}

#ifdef CURAND_VER_MAJOR  // NVIDIA's header: it has the types of the tables, which kernels with curand_kernel.h are given
#define TABLE(name, parameters, arguments)                                          \
    API curandStatus_t name parameters {                                            \
        connect();                                                                  \
        static const auto found = nvidias<decltype(&name)>(#name);                  \
        if (!found) return unsupported(#name " without NVIDIA's cuRAND"), CURAND_STATUS_INITIALIZATION_FAILED; \
        return found arguments;                                                     \
    }
TABLE(curandGetDirectionVectors32, (curandDirectionVectors32_t * vectors[], curandDirectionVectorSet_t set), (vectors, set))
TABLE(curandGetDirectionVectors64, (curandDirectionVectors64_t * vectors[], curandDirectionVectorSet_t set), (vectors, set))
TABLE(curandGetScrambleConstants32, (unsigned** constants), (constants))
TABLE(curandGetScrambleConstants64, (unsigned long long** constants), (constants))
API curandStatus_t curandCreatePoissonDistribution(double, curandDiscreteDistribution_t*) {
    return unsupported("curandCreatePoissonDistribution"), CURAND_STATUS_INTERNAL_ERROR;
}
API curandStatus_t curandDestroyDistribution(curandDiscreteDistribution_t) {
    return unsupported("curandDestroyDistribution"), CURAND_STATUS_INTERNAL_ERROR;
}
#endif
