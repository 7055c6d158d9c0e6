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

// A tile is ROWS rows by PANEL outputs: 24 sums in 32 registers with AVX-512, 12 in 16 with AVX. A sum is made in the same
// order whatever the number of rows, so that a row does not depend on its company.
#ifdef __AVX512F__
constexpr int64_t VECTORS = 4;
#else
constexpr int64_t VECTORS = 16 / LANES;
#endif
#ifdef __AVX512F__
constexpr int64_t PAIR = 2;  // of bfloat16 weights that are read at once
#else
constexpr int64_t PAIR = 1;
#endif
#ifdef __AVX512BF16__
constexpr bool ROUNDING = true;  // inputs to bfloat16, too: pairs are multiplied and added at once
#else
constexpr bool ROUNDING = false;
#endif
constexpr int64_t ROWS = 6, PANEL = VECTORS * LANES;

// Memory is slow, so weights are asked for long before they are read. A step along the inputs reads LINES cache lines of a
// panel. Where one tile has all rows, it asks for as many lines, AHEAD bytes further; of several tiles, the first ones ask for
// the next panel, as many lines at a step as it takes, because most of a panel's requests would find it in the cache.
constexpr int64_t LINE = 64, AHEAD = 16384, FITTING = 1 << 18;  // bytes; a second-level cache has two panels of FITTING
constexpr int64_t LINES = PANEL * 4 / LINE;
struct Ahead {
    int64_t lines;
    const char* from;
};

static inline Ahead ahead_of(const void* panel, int64_t steps, int64_t tile, int64_t tiles) {
    int64_t bytes = steps * LINES * LINE, sharers = tiles < LINES ? tiles : LINES;
    if (tiles == 1 || bytes > FITTING) return {tile == 0 ? LINES : 0, (const char*)panel + AHEAD};
    int64_t lines = sharers == 3 ? 2 : LINES / sharers;
    if (tile * lines >= LINES) return {0, nullptr};
    return {lines, (const char*)panel + bytes + tile * steps * lines * LINE};
}

template <int COUNT>
static inline void ask(const char*& place) {
#pragma GCC unroll 4
    for (int64_t line = 0; line < COUNT; line++, place += LINE) __builtin_prefetch(place, 0, 2);
}

// body(rows, lines) with both as constants, for which it has a loop of its own each.
template <class Body>
static inline void with_constants(int64_t rows, int64_t lines, const Body& body) {
    auto with_rows = [&](auto count) {
        switch (lines) {
            case 0: return body(count, std::integral_constant<int, 0>());
            case 1: return body(count, std::integral_constant<int, 1>());
            case 2: return body(count, std::integral_constant<int, 2>());
            default: return body(count, std::integral_constant<int, LINES>());
        }
    };
    switch (rows) {
        case 1: return with_rows(std::integral_constant<int, 1>());
        case 2: return with_rows(std::integral_constant<int, 2>());
        case 3: return with_rows(std::integral_constant<int, 3>());
        case 4: return with_rows(std::integral_constant<int, 4>());
        case 5: return with_rows(std::integral_constant<int, 5>());
        default: return with_rows(std::integral_constant<int, ROWS>());
    }
}

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

// Keeps weights in their register. Where rows are few, compilers would rather read them again for each row, which takes
// longer than the products.
template <class Register>
static inline void hold(Register& weights) {
#ifdef __AVX512F__
    __asm__("" : "+v"(weights));
#elif defined(__AVX__)
    __asm__("" : "+x"(weights));
#endif
}

// The products of M rows of x with a panel.
template <int M, int ASKED>
static inline void tile(const float* x, int64_t inputs, const float* panel, const char* ahead, Vec (*to)[VECTORS]) {
    Vec sums[M][VECTORS] = {};
    for (int64_t k = 0; k < inputs; k++, panel += PANEL) {
        Vec w[VECTORS];
#pragma GCC unroll 4
        for (int64_t j = 0; j < VECTORS; j++) hold(w[j] = load(panel + j * LANES));
        ask<ASKED>(ahead);
#pragma GCC unroll 6
        for (int m = 0; m < M; m++)
#pragma GCC unroll 4
            for (int64_t j = 0; j < VECTORS; j++) sums[m][j] += x[m * inputs + k] * w[j];
    }
    std::memcpy(to, sums, sizeof sums);
}

// The same with bfloat16 weights. With ROUNDING, x is in pairs of bfloat16 too.
template <int M, int ASKED>
static inline void tile(const void* x, int64_t inputs, const uint16_t* panel, const char* ahead, Vec (*to)[VECTORS]) {
    Vec sums[M][VECTORS] = {};
#ifdef __AVX512F__
    for (int64_t k = 0; k < inputs; k += 2, panel += 2 * PANEL) {
        __m512i w[VECTORS];
#pragma GCC unroll 4
        for (int64_t j = 0; j < VECTORS; j++) hold(w[j] = _mm512_loadu_si512(panel + 2 * j * LANES));
        ask<ASKED>(ahead);
#ifdef __AVX512BF16__
#pragma GCC unroll 6
        for (int m = 0; m < M; m++) {
            __m512bh value = (__m512bh)_mm512_set1_epi32(((const int32_t*)x)[(m * inputs + k) / 2]);
#pragma GCC unroll 4
            for (int64_t j = 0; j < VECTORS; j++)
                sums[m][j] = (Vec)_mm512_dpbf16_ps((__m512)sums[m][j], value, (__m512bh)w[j]);
        }
#else
        const __m512i upper = _mm512_set1_epi32(0xffff0000);
#pragma GCC unroll 2
        for (int64_t second = 0; second < 2; second++) {
            Vec one[VECTORS];
#pragma GCC unroll 4
            for (int64_t j = 0; j < VECTORS; j++)
                hold(one[j] = (Vec)(second ? _mm512_and_si512(w[j], upper) : _mm512_slli_epi32(w[j], 16)));
#pragma GCC unroll 6
            for (int m = 0; m < M; m++)
#pragma GCC unroll 4
                for (int64_t j = 0; j < VECTORS; j++) sums[m][j] += ((const float*)x)[m * inputs + k + second] * one[j];
        }
#endif
    }
#else
    for (int64_t k = 0; k < inputs; k++, panel += PANEL) {
        Vec w[VECTORS];
        for (int64_t j = 0; j < VECTORS; j++) w[j] = take(panel, true, j * LANES);
        if (k % 2 == 0) ask<ASKED>(ahead);
        for (int m = 0; m < M; m++)
            for (int64_t j = 0; j < VECTORS; j++) sums[m][j] += ((const float*)x)[m * inputs + k] * w[j];
    }
#endif
    std::memcpy(to, sums, sizeof sums);
}

// The same as `finish` for a whole panel, with constants.
template <Activation ACTIVATION, bool ADD>
static inline void finish_whole(Vec (*sums)[VECTORS], int64_t rows, const float* bias, float* to, int64_t stride) {
    for (int64_t m = 0; m < rows; m++, to += stride)
#pragma GCC unroll 4
        for (int64_t j = 0; j < VECTORS; j++) {
            Vec value = sums[m][j];
            if (bias) value += load(bias + j * LANES);
            value = activated(value, ACTIVATION);
            store(to + j * LANES, ADD ? load(to + j * LANES) + value : value);
        }
}

// to = activation(sums + b), or to += sums + b, for the first `count` outputs of a panel.
static inline void finish(Vec (*sums)[VECTORS], int64_t rows, const float* bias, float* to, int64_t stride, int64_t count,
                          bool add, int64_t activation) {
    if (count == PANEL && activation == NONE && add) return finish_whole<NONE, true>(sums, rows, bias, to, stride);
    if (count == PANEL && activation == NONE) return finish_whole<NONE, false>(sums, rows, bias, to, stride);
    if (count == PANEL && activation == RELU && !add) return finish_whole<RELU, false>(sums, rows, bias, to, stride);
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
                    const char* ahead = (const char*)weights + AHEAD;
                    if (!row)
                        for (int64_t line = 0; line < 16; line++) ask<LINES>(ahead);
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

// Asks for the places where a tile's outputs will go.
static inline void ask_for_outputs(const float* to, int64_t rows, int64_t stride) {
    for (int64_t m = 0; m < rows; m++)
        for (int64_t j = 0; j < VECTORS; j++) __builtin_prefetch(to + m * stride + j * LANES, 1, 3);
}

// to = activation(W x + b), or to += W x + b. `rounded` has room for x in bfloat16, up to a multiple of 16 rows.
template <class Weight>
static void multiply(
    const Product& product, const float* x, int64_t rows, float* to, bool add, int64_t activation, int64_t threads,
    uint16_t* rounded
) {
    int64_t inputs = product.inputs, outputs = product.outputs, tiles = (rows + ROWS - 1) / ROWS;
    constexpr bool rounding = sizeof(Weight) == 2 && ROUNDING;
    int64_t steps = inputs * (int64_t)sizeof(Weight) / 4;  // of LINES cache lines each
    if (rounding)
        for (int64_t i = 0; i < rows * inputs; i += LANES) put(rounded, true, i, load(x + i));
    if (inputs * outputs < 1 << 16) threads = 1;
#ifdef TILES
    if (rounding && inputs % 32 == 0 && has_tiles())
        return multiply_by_tiles(product, rounded, rows, to, add, activation, threads);
#endif
    const char* from = rounding ? (const char*)rounded : (const char*)x;
    parallel((outputs + PANEL - 1) / PANEL, threads, [=, &product](int64_t number) {
        const Weight* panel = (const Weight*)product.weight + number * inputs * PANEL;
        int64_t column = number * PANEL, count = outputs - column < PANEL ? outputs - column : PANEL;
        for (int64_t part = 0; part < tiles; part++) {
            int64_t row = rows * part / tiles, here = rows * (part + 1) / tiles - row;
            using Input = std::conditional_t<sizeof(Weight) == 2, void, float>;
            auto values = (const Input*)(from + row * inputs * (rounding ? 2 : 4));
            Ahead ahead = ahead_of(panel, steps, part, tiles);
            Vec sums[ROWS][VECTORS];
            ask_for_outputs(to + row * outputs + column, here, outputs);
            with_constants(here, ahead.lines, [&](auto m, auto lines) {
                tile<m, lines>(values, inputs, panel, ahead.from, sums);
            });
            const float* bias = product.bias ? product.bias + column : nullptr;
            finish(sums, here, bias, to + row * outputs + column, outputs, count, add, activation);
        }
    });
}

