// Products of int8 weights and int8 activations, with sums of whole numbers: every processor gets the same integers.
//   y = (Σ w q) · (s · a) + b,   w, q in −127 … 127, s a scale of each output, a = max |x| / 127 of each row
// Weights stand in panels [outputs / PANEL, inputs / 4, PANEL, 4], so that four inputs are multiplied and added at once.
constexpr int64_t FOUR = 4;
#if defined(__AVX512VNNI__) || (defined(__AVXVNNI__) && !defined(__AVX512F__))
constexpr int SHIFT = 128;  // the instruction takes unsigned activations: q + 128, and the sums are 128 Σ w too large
#else
constexpr int SHIFT = 0;
#endif
constexpr float LEAST = 1e-30f;  // a row with nothing larger counts as zeros

static inline int64_t fours(int64_t inputs) { return (inputs + FOUR - 1) / FOUR * FOUR; }

// q + SHIFT = round(x · (127 / max |x|)) + SHIFT, ties to even, and a; a is NaN where a number of the row is not finite.
static void quantise(const float* x, int64_t inputs, uint8_t* to, float* scale) {
    Vec most = {}, broken = {};
    int64_t whole = inputs / LANES * LANES, padded = fours(inputs);
    for (int64_t i = 0; i < whole; i += LANES) {
        Vec value = load(x + i), size = where(value < Vec{}, -value, value);
        most = where(most < size, size, most);
        broken += value - value;
    }
    float top = 0, bad = sum(broken);
    for (int i = 0; i < LANES; i++) top = most[i] > top ? most[i] : top;
    for (int64_t i = whole; i < inputs; i++) {
        float size = std::fabs(x[i]);
        top = size > top ? size : top;
        bad += x[i] - x[i];
    }
    *scale = top > LEAST ? top / 127 + bad : bad;
    float inverse = top > LEAST && bad == 0 ? 127 / top : 0;
    if (inverse == 0) {
        std::memset(to, SHIFT, padded);
        return;
    }
#ifdef __AVX512F__
    for (int64_t i = 0; i < whole; i += LANES) {
        __m512i rounded = _mm512_cvtps_epi32(_mm512_mul_ps((__m512)load(x + i), _mm512_set1_ps(inverse)));
        rounded = _mm512_add_epi32(rounded, _mm512_set1_epi32(SHIFT));
        _mm_storeu_si128((__m128i*)(to + i), _mm512_cvtepi32_epi8(rounded));
    }
#else
    for (int64_t i = 0; i < whole; i++) to[i] = (uint8_t)((int32_t)std::nearbyint(x[i] * inverse) + SHIFT);
#endif
    for (int64_t i = whole; i < inputs; i++) to[i] = (uint8_t)((int32_t)std::nearbyint(x[i] * inverse) + SHIFT);
    for (int64_t i = inputs; i < padded; i++) to[i] = SHIFT;
}

// The sums of M rows, `apart` bytes after each other, with a panel.
template <int M, int ASKED>
static inline void integers(
    const uint8_t* x, int64_t apart, const int8_t* panel, const char* ahead, VecInt (*to)[VECTORS]
) {
#if defined(__AVX2__) && !defined(__AVX512VNNI__)
    constexpr int64_t EIGHTS = PANEL / 8;  // registers of this size, also where floats have longer ones
    __m256i sums[M][EIGHTS] = {};
#else
    VecInt sums[M][VECTORS] = {};
#endif
    for (int64_t k = 0; k < apart; k += FOUR, panel += FOUR * PANEL) {
        ask<ASKED>(ahead);
#ifdef __AVX512VNNI__
        __m512i w[VECTORS];
#pragma GCC unroll 4
        for (int64_t j = 0; j < VECTORS; j++) hold(w[j] = _mm512_loadu_si512(panel + j * FOUR * LANES));
#pragma GCC unroll 6
        for (int m = 0; m < M; m++) {
            int32_t four;
            std::memcpy(&four, x + m * apart + k, sizeof four);
            __m512i value = _mm512_set1_epi32(four);
#pragma GCC unroll 4
            for (int64_t j = 0; j < VECTORS; j++)
                sums[m][j] = (VecInt)_mm512_dpbusd_epi32((__m512i)sums[m][j], value, w[j]);
        }
#elif defined(__AVX2__)
        // Pairs of |w| · (±q) are at most 2 · 127², which fits the 16 bits in which the instruction adds them up.
        __m256i w[EIGHTS];
#pragma GCC unroll 8
        for (int64_t j = 0; j < EIGHTS; j++) w[j] = _mm256_loadu_si256((const __m256i*)(panel + j * 32));
#pragma GCC unroll 6
        for (int m = 0; m < M; m++) {
            int32_t four;
            std::memcpy(&four, x + m * apart + k, sizeof four);
            __m256i value = _mm256_set1_epi32(four);
#pragma GCC unroll 8
            for (int64_t j = 0; j < EIGHTS; j++) {
#ifdef __AVXVNNI__
                sums[m][j] = _mm256_dpbusd_avx_epi32(sums[m][j], value, w[j]);
#else
                __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w[j]), _mm256_sign_epi8(value, w[j]));
                sums[m][j] = _mm256_add_epi32(sums[m][j], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#endif
            }
        }
#else
        for (int m = 0; m < M; m++)
            for (int64_t i = 0; i < PANEL; i++) {
                int32_t total = 0;
                for (int64_t part = 0; part < FOUR; part++)
                    total += (int32_t)panel[i * FOUR + part] * (int8_t)x[m * apart + k + part];
                sums[m][i / LANES][i % LANES] += total;
            }
#endif
    }
    std::memcpy(to, sums, sizeof sums);
}

// The outputs of a panel from sums of whole numbers: of `rows` rows, with the scales of their activations. One function for
// vectors and tiles, so that compilers round both alike.
__attribute__((noinline)) static void finish_integers(
    const Product& product, VecInt (*whole)[VECTORS], int64_t rows, const float* scales, int64_t column, float* to, bool add,
    int64_t activation
) {
    Vec sums[16][VECTORS];
    for (int64_t m = 0; m < rows; m++)
        for (int64_t j = 0; j < VECTORS; j++) {
            VecInt surplus;
            std::memcpy(&surplus, product.sums + column + j * LANES, sizeof surplus);
            sums[m][j] = __builtin_convertvector(whole[m][j] - surplus * SHIFT, Vec) *
                         (load(product.scales + column + j * LANES) * scales[m]);
        }
    const float* bias = product.bias ? product.bias + column : nullptr;
    int64_t count = std::min(PANEL, product.outputs - column);
    finish(sums, rows, bias, to + column, product.outputs, count, add, activation);
}

#if defined(TILES) && defined(__AMX_INT8__) && defined(__AVX512VNNI__)
#define INT8_TILES
constexpr int64_t TILED = 16;  // rows from which tiles are faster than vectors

// The same integers on tiles. There is memory for a multiple of 16 rows of values; what stands in those beyond `rows` does
// not matter.
static void multiply_int8_by_tiles(
    const Product& product, const uint8_t* values, const float* scales, int64_t rows, float* to, bool add, int64_t activation,
    int64_t threads
) {
    int64_t inputs = product.inputs, panels = (product.outputs + PANEL - 1) / PANEL;
    int64_t tasks = threads > 1 ? std::min(panels, 4 * threads) : 1;
    parallel(tasks, threads, [=, &product](int64_t task) {
        TileRegisters registers;
        alignas(64) VecInt whole[16][VECTORS];
        for (int64_t number = panels * task / tasks; number < panels * (task + 1) / tasks; number++) {
            const int8_t* panel = (const int8_t*)product.weight + number * inputs * PANEL;
            for (int64_t row = 0; row < rows; row += 16) {
                _tile_zero(0);
                _tile_zero(1);
                _tile_zero(2);
                _tile_zero(3);
                tiles_read();
                for (int64_t k = 0; k < inputs; k += 64) {
                    const int8_t* weights = panel + k * PANEL;
                    const char* ahead = (const char*)weights + AHEAD;
                    if (!row)
                        for (int64_t line = 0; line < 16; line++) ask<LINES>(ahead);
                    _tile_loadd(4, values + row * inputs + k, inputs);
                    _tile_loadd(5, weights, FOUR * PANEL);
                    _tile_dpbusd(0, 4, 5);
                    _tile_loadd(6, weights + 64, FOUR * PANEL);
                    _tile_dpbusd(1, 4, 6);
                    _tile_loadd(5, weights + 128, FOUR * PANEL);
                    _tile_dpbusd(2, 4, 5);
                    _tile_loadd(6, weights + 192, FOUR * PANEL);
                    _tile_dpbusd(3, 4, 6);
                }
                _tile_stored(0, &whole[0][0], 4 * PANEL);
                _tile_stored(1, &whole[0][1], 4 * PANEL);
                _tile_stored(2, &whole[0][2], 4 * PANEL);
                _tile_stored(3, &whole[0][3], 4 * PANEL);
                finish_integers(product, whole, std::min<int64_t>(16, rows - row), scales + row, number * PANEL,
                                to + row * product.outputs, add, activation);
            }
        }
    });
}
#endif

// to = activation(W x + b), or to += W x + b. `room` takes, of rows up to a multiple of 16, the inputs rounded up to fours and
// a float of each.
static void multiply_int8(
    const Product& product, const float* x, int64_t rows, float* to, bool add, int64_t activation, int64_t threads,
    uint16_t* room
) {
    int64_t inputs = product.inputs, outputs = product.outputs, padded = fours(inputs), tiles = (rows + ROWS - 1) / ROWS;
    float* scales = (float*)room;
    uint8_t* values = (uint8_t*)(scales + rows);
    if (rows * inputs * outputs < 1 << 18) threads = 1;
    parallel((rows + ROWS - 1) / ROWS, rows * inputs < 1 << 16 ? 1 : threads, [=](int64_t part) {
        for (int64_t row = part * ROWS; row < std::min(rows, (part + 1) * ROWS); row++)
            quantise(x + row * inputs, inputs, values + row * padded, scales + row);
    });
#ifdef INT8_TILES
    if (rows >= TILED && inputs % 64 == 0 && has_tiles())
        return multiply_int8_by_tiles(product, values, scales, rows, to, add, activation, threads);
#endif
    parallel((outputs + PANEL - 1) / PANEL, threads, [=, &product](int64_t number) {
        const int8_t* panel = (const int8_t*)product.weight + number * padded * PANEL;
        int64_t column = number * PANEL;
        for (int64_t part = 0; part < tiles; part++) {
            int64_t row = rows * part / tiles, here = rows * (part + 1) / tiles - row;
            const uint8_t* from = values + row * padded;
            Ahead ahead = ahead_of(panel, padded / FOUR, part, tiles);
            VecInt whole[ROWS][VECTORS];
            ask_for_outputs(to + row * outputs + column, here, outputs);
            with_constants(here, ahead.lines, [&](auto m, auto lines) {
                integers<m, lines>(from, padded, panel, ahead.from, whole);
            });
            finish_integers(product, whole, here, scales + row, column, to + row * outputs, add, activation);
        }
    });
}

// How to multiply by a weight like this one; `half` says whether one that is not int8 is bfloat16.
static auto multiplier(const Product& product, bool half) {
    return product.scales ? multiply_int8 : half ? multiply<uint16_t> : multiply<float>;
}
