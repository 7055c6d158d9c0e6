// Products of a few rows with a weight that is laid out in panels: float32, bfloat16, or int8 with scales.
#include <algorithm>
#include <type_traits>

enum Activation : int64_t { NONE, RELU, GELU, SILU, GELU_TANH };

struct Product {
    const void* weight;  // in panels: [outputs / PANEL, inputs, PANEL], or in pairs [.., inputs / 2, PANEL, 2]
    const float* bias;   // or null
    int64_t inputs, outputs;
    const float* scales;  // of the outputs of int8 weights, for whole panels; null for other weights
    const int32_t* sums;  // of the int8 weights of each output, for whole panels
};

// A tile is ROWS rows by PANEL outputs: 24 sums in 32 registers with AVX-512, 12 in 16 with shorter vectors. A sum is made
// in the same order whatever the number of rows, so that a row does not depend on its company.
#ifdef __AVX512F__
constexpr int64_t VECTORS = 4;
#else
constexpr int64_t VECTORS = 1;
#endif
#ifdef __AVX512BF16__
constexpr int64_t PAIR = 2;  // of bfloat16 weights that are multiplied and added at once
#else
constexpr int64_t PAIR = 1;
#endif
constexpr int64_t ROWS = 6, PANEL = VECTORS * LANES;
constexpr int64_t AHEAD = 16384;  // bytes: weights are asked for long before, or half the time goes on waiting

static inline Vec activated(Vec x, int64_t activation) {
    switch (activation) {
        case RELU: return at_least(x, 0);
        case GELU:
            for (int i = 0; i < LANES; i++) x[i] = 0.5f * x[i] * (1 + std::erf(x[i] * 0.70710678f));
            return x;
        case SILU: return x / (1 + exp(-x));
        case GELU_TANH: return x / (1 + exp(x * (x * x * -0.0713548163f - 1.5957691216f)));  // 1 + tanh(u) = 2 / (1 + exp(-2u))
        default: return x;
    }
}

static inline void ask(const char* place) {
    for (int64_t line = 0; line < (int64_t)(PANEL * sizeof(float)); line += 64) __builtin_prefetch(place + AHEAD + line, 0, 2);
}

// Keeps weights in their register. Where rows are few, compilers would rather read them again for each row, which takes
// longer than the products.
template <class Register>
static inline void hold(Register& weights) {
#ifdef __AVX512F__
    __asm__("" : "+v"(weights));
#endif
}

// The products of M rows of x with a panel.
template <int M>
static inline void tile(const float* x, int64_t inputs, const float* panel, Vec (*to)[VECTORS]) {
    Vec sums[M][VECTORS] = {};
    for (int64_t k = 0; k < inputs; k++, panel += PANEL) {
        Vec w[VECTORS];
#pragma GCC unroll 4
        for (int64_t j = 0; j < VECTORS; j++) hold(w[j] = load(panel + j * LANES));
        ask((const char*)panel);
#pragma GCC unroll 6
        for (int m = 0; m < M; m++)
#pragma GCC unroll 4
            for (int64_t j = 0; j < VECTORS; j++) sums[m][j] += x[m * inputs + k] * w[j];
    }
    std::memcpy(to, sums, sizeof sums);
}

// The same with bfloat16 weights. Where these come in pairs, x is in pairs of bfloat16 too.
template <int M>
static inline void tile(const void* x, int64_t inputs, const uint16_t* panel, Vec (*to)[VECTORS]) {
    Vec sums[M][VECTORS] = {};
#ifdef __AVX512BF16__
    const uint32_t* pairs = (const uint32_t*)x;
    for (int64_t k = 0; k < inputs / 2; k++, panel += 2 * PANEL) {
        __m512bh w[VECTORS];
#pragma GCC unroll 4
        for (int64_t j = 0; j < VECTORS; j++) {
            __m512i weights = _mm512_loadu_si512(panel + 2 * j * LANES);
            hold(weights);
            w[j] = (__m512bh)weights;
        }
        ask((const char*)panel);
#pragma GCC unroll 6
        for (int m = 0; m < M; m++) {
            __m512bh value = (__m512bh)_mm512_set1_epi32((int)pairs[m * inputs / 2 + k]);
#pragma GCC unroll 4
            for (int64_t j = 0; j < VECTORS; j++) sums[m][j] = (Vec)_mm512_dpbf16_ps((__m512)sums[m][j], value, w[j]);
        }
    }
#else
    for (int64_t k = 0; k < inputs; k++, panel += PANEL)
        for (int m = 0; m < M; m++)
            for (int64_t j = 0; j < VECTORS; j++)
                sums[m][j] += ((const float*)x)[m * inputs + k] * take(panel, true, j * LANES);
#endif
    std::memcpy(to, sums, sizeof sums);
}

// to = activation(sums + b), or to += sums + b, for the first `count` outputs of a panel.
static inline void finish(Vec (*sums)[VECTORS], int64_t rows, const float* bias, float* to, int64_t stride, int64_t count,
                          bool add, int64_t activation) {
    for (int64_t m = 0; m < rows; m++)
        for (int64_t j = 0; j < VECTORS && j * LANES < count; j++) {
            float part[LANES] = {}, *place = to + m * stride + j * LANES;
            int64_t here = count - j * LANES < LANES ? count - j * LANES : LANES;
            Vec value = sums[m][j];
            if (bias && here == LANES) value += load(bias + j * LANES);
            if (bias && here < LANES) {
                std::copy_n(bias + j * LANES, here, part);
                value += load(part);
            }
            value = activated(value, activation);
            if (here == LANES) {
                store(place, add ? load(place) + value : value);
                continue;
            }
            store(part, value);
            for (int64_t i = 0; i < here; i++) place[i] = add ? place[i] + part[i] : part[i];
        }
}

#ifdef TILES
// The same for bfloat16 weights and inputs on tiles. There is memory for a multiple of 16 rows; what stands in those beyond
// `rows` does not matter.
static void multiply_by_tiles(
    const Product& product, const uint16_t* x, int64_t rows, float* to, bool add, int64_t activation, int64_t threads
) {
    int64_t inputs = product.inputs, outputs = product.outputs, panels = (outputs + PANEL - 1) / PANEL;
    int64_t tasks = threads > 1 ? std::min(panels, 4 * threads) : 1;
    parallel(tasks, threads, [=, &product](int64_t task) {
        TileRegisters registers;
        alignas(64) Vec sums[16][VECTORS];
        for (int64_t number = panels * task / tasks; number < panels * (task + 1) / tasks; number++) {
            const uint16_t* panel = (const uint16_t*)product.weight + number * inputs * PANEL;
            int64_t column = number * PANEL, count = std::min(PANEL, outputs - column);
            for (int64_t row = 0; row < rows; row += 16) {
                _tile_zero(0);
                _tile_zero(1);
                _tile_zero(2);
                _tile_zero(3);
                tiles_read();
                for (int64_t k = 0; k < inputs; k += 32) {
                    const uint16_t* weights = panel + k * PANEL;
                    if (!row)
                        for (int64_t line = 0; line < 16; line++) ask((const char*)weights + line * 4 * PANEL);
                    _tile_loadd(4, x + row * inputs + k, inputs * 2);
                    _tile_loadd(5, weights, 4 * PANEL);
                    _tile_dpbf16ps(0, 4, 5);
                    _tile_loadd(6, weights + 32, 4 * PANEL);
                    _tile_dpbf16ps(1, 4, 6);
                    _tile_loadd(5, weights + 64, 4 * PANEL);
                    _tile_dpbf16ps(2, 4, 5);
                    _tile_loadd(6, weights + 96, 4 * PANEL);
                    _tile_dpbf16ps(3, 4, 6);
                }
                _tile_stored(0, &sums[0][0], 4 * PANEL);
                _tile_stored(1, &sums[0][1], 4 * PANEL);
                _tile_stored(2, &sums[0][2], 4 * PANEL);
                _tile_stored(3, &sums[0][3], 4 * PANEL);
                const float* bias = product.bias ? product.bias + column : nullptr;
                finish(sums, std::min<int64_t>(16, rows - row), bias, to + row * outputs + column, outputs, count, add,
                       activation);
            }
        }
    });
}
#endif

// to = activation(W x + b), or to += W x + b. `rounded` has room for x in bfloat16, up to a multiple of 16 rows.
template <class Weight>
static void multiply(
    const Product& product, const float* x, int64_t rows, float* to, bool add, int64_t activation, int64_t threads,
    uint16_t* rounded
) {
    int64_t inputs = product.inputs, outputs = product.outputs, tiles = (rows + ROWS - 1) / ROWS;
    bool pairs = sizeof(Weight) == 2 && PAIR == 2;
    if (pairs)
        for (int64_t i = 0; i < rows * inputs; i += LANES) put(rounded, true, i, load(x + i));
    if (inputs * outputs < 1 << 16) threads = 1;
#ifdef TILES
    if (pairs && inputs % 32 == 0 && has_tiles())
        return multiply_by_tiles(product, rounded, rows, to, add, activation, threads);
#endif
    const char* from = pairs ? (const char*)rounded : (const char*)x;
    parallel((outputs + PANEL - 1) / PANEL, threads, [=, &product](int64_t number) {
        const Weight* panel = (const Weight*)product.weight + number * inputs * PANEL;
        int64_t column = number * PANEL, count = outputs - column < PANEL ? outputs - column : PANEL;
        for (int64_t part = 0; part < tiles; part++) {
            int64_t row = rows * part / tiles, here = rows * (part + 1) / tiles - row;
            auto values = (const std::conditional_t<sizeof(Weight) == 2, void, float>*)(from + row * inputs * (pairs ? 2 : 4));
            Vec sums[ROWS][VECTORS];
            switch (here) {
                case 1: tile<1>(values, inputs, panel, sums); break;
                case 2: tile<2>(values, inputs, panel, sums); break;
                case 3: tile<3>(values, inputs, panel, sums); break;
                case 4: tile<4>(values, inputs, panel, sums); break;
                case 5: tile<5>(values, inputs, panel, sums); break;
                default: tile<6>(values, inputs, panel, sums);
            }
            const float* bias = product.bias ? product.bias + column : nullptr;
            finish(sums, here, bias, to + row * outputs + column, outputs, count, add, activation);
        }
    });
}

