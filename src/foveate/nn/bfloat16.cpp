// Products of matrices in bfloat16 with sums in float32, for processors with AVX-512 BF16, and AMX where there is.
//
// Both add products of neighbouring pairs, so every operand is read as 32-bit pairs along the summed axis. The right
// factor comes in panels, [columns / panel][pairs][panel], with zeros up to a multiple of 16 pairs; the left one as it is
// where its rows run along the summed axis. Without AMX tiles are 6 rows by 64 columns, 24 of the 32 vector registers;
// with it 32 by 32, four of the eight registers.
#ifdef __AVX512BF16__
#include <algorithm>
#include <initializer_list>
#include <memory>

constexpr int64_t PANEL = 64, ROWS = 6, BLOCK = 252, COLUMNS = 96, PAIRS = 256, STEP = 16, BESIDE = 256, AHEAD = 32;

static inline int64_t whole(int64_t count, int64_t step) { return (count + step - 1) / step * step; }

// How many rows or columns a task gets: not more than `most`, and fewer where threads would stand idle.
static inline int64_t share(int64_t total, int64_t most, int64_t step, int64_t threads) {
    return std::min(most, std::max(step, whole((total + threads - 1) / threads, step)));
}

constexpr int64_t SIDE = 32;  // of a block of tiles

static int64_t panel_width() { return has_tiles() ? SIDE : PANEL; }

struct Output {
    void* to;
    int64_t stride;
    bool half;
    const float* bias;
    bool relu;
    const uint16_t* gate;  // where this, the result of a ReLU, is 0, the result is 0
    bool add;
};

static inline __mmask16 first(int64_t count) { return count >= 16 ? 0xffff : count <= 0 ? 0 : (1u << count) - 1; }

static inline __m512i pairs(__m256i even, __m256i odd) {
    return _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

static inline __m512 widened(__m256i half) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

static inline __m256i rounded(__m512 x) { return (__m256i)_mm512_cvtneps_pbh(x); }

// e^x to 2 units in the last place for x ≤ 0; NaN stays NaN.
static inline __m512 exponential(__m512 x) {
    x = _mm512_max_ps(_mm512_set1_ps(-104.0f), x);
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 8);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
    r = _mm512_fmadd_ps(n, _mm512_set1_ps(2.12194440e-4f), r);
    __m512 p = _mm512_set1_ps(1.9875691500e-4f);
    for (float next :
         {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f, 1.0f, 1.0f})
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(next));
    return _mm512_scalef_ps(p, n);
}

static void finish(__m512 value, const Output& out, int64_t at, int64_t column, __mmask16 mask) {
    if (out.bias) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, out.bias + column));
    if (out.relu) value = _mm512_max_ps(_mm512_setzero_ps(), value);  // NaN stays NaN
    if (out.gate) {
        __m512 gate = widened(_mm256_maskz_loadu_epi16(mask, out.gate + at));
        value = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(gate, _mm512_setzero_ps(), _CMP_NEQ_UQ), value);
    }
    if (out.half) {
        _mm256_mask_storeu_epi16((uint16_t*)out.to + at, mask, rounded(value));
        return;
    }
    float* to = (float*)out.to + at;
    if (out.add) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, to));
    _mm512_mask_storeu_ps(to, mask, value);
}

// One tile. ALONG: the left factor's rows run along the summed axis; else pairs of rows lie side by side.
template <int M, bool ALONG>
static void tile(
    const uint32_t* left, int64_t stride, const uint32_t* right, int64_t count, const Output& out, int64_t row,
    int64_t column, int64_t columns
) {
    __m512 sums[M][4];
#pragma GCC unroll 8
    for (int m = 0; m < M; m++)
        for (int j = 0; j < 4; j++) sums[m][j] = _mm512_setzero_ps();
    for (int64_t k = 0; k < count; k++, right += PANEL) {
        __m512bh b[4];
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) b[j] = (__m512bh)_mm512_loadu_si512(right + 16 * j);
#pragma GCC unroll 8
        for (int m = 0; m < M; m++) {
            __m512bh a = (__m512bh)_mm512_set1_epi32((int)(ALONG ? left[m * stride + k] : left[k * stride + m]));
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) sums[m][j] = _mm512_dpbf16_ps(sums[m][j], a, b[j]);
        }
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; m++)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            int64_t at = column + 16 * j;
            if (at < columns) finish(sums[m][j], out, (row + m) * out.stride + at, at, first(columns - at));
        }
}

template <bool ALONG>
static void panel(
    const uint32_t* left, int64_t stride, const uint32_t* right, int64_t count, const Output& out, int64_t row,
    int64_t rows, int64_t column, int64_t columns
) {
    int64_t m = 0;
    auto at = [&] { return left + (ALONG ? m * stride : m); };
    for (; m + ROWS <= rows; m += ROWS) tile<ROWS, ALONG>(at(), stride, right, count, out, row + m, column, columns);
    switch (rows - m) {
        case 5: return tile<5, ALONG>(at(), stride, right, count, out, row + m, column, columns);
        case 4: return tile<4, ALONG>(at(), stride, right, count, out, row + m, column, columns);
        case 3: return tile<3, ALONG>(at(), stride, right, count, out, row + m, column, columns);
        case 2: return tile<2, ALONG>(at(), stride, right, count, out, row + m, column, columns);
        case 1: return tile<1, ALONG>(at(), stride, right, count, out, row + m, column, columns);
    }
}

// Panels of the transpose of a float32 matrix [rows, width]: the summed axis is `width`, which is even.
static void pack_transposed(const float* from, int64_t rows, int64_t width, uint32_t* to, int64_t threads) {
    int64_t count = whole(width / 2, STEP), wide = panel_width();
    parallel(whole(rows, wide) / 16, threads, [=](int64_t task) {
        uint32_t* strip = to + task * 16 / wide * count * wide + task * 16 % wide;
        for (int64_t k = 0; k < 2 * count; k += 32) {
            __m512 block[16];
            for (int64_t r = 0; r < 16; r++) {
                const float* row = from + (task * 16 + r) * width + k;
                bool there = task * 16 + r < rows;
                __m512 a = there ? _mm512_maskz_loadu_ps(first(width - k), row) : _mm512_setzero_ps();
                __m512 b = there ? _mm512_maskz_loadu_ps(first(width - k - 16), row + 16) : _mm512_setzero_ps();
                block[r] = (__m512)_mm512_cvtne2ps_pbh(b, a);
            }
            transpose(block);
            for (int64_t q = 0; q < 16; q++) _mm512_storeu_ps(strip + (k / 2 + q) * wide, block[q]);
        }
    });
}

// A line of memory of each row of a pair that is read some pairs later: rows that lie apart do not come by themselves.
static inline void fetch(const void* at, int64_t bytes_of_row) {
    __builtin_prefetch((const char*)at + AHEAD * bytes_of_row);
    __builtin_prefetch((const char*)at + (AHEAD + 1) * bytes_of_row);
}

// Panels of a matrix [rows, width], float32 or bfloat16, as it is: the summed axis is `rows`. A task is some panels side by
// side, because rows are read as they lie in memory.
static void pack(const void* from, bool half, int64_t rows, int64_t width, uint32_t* to, int64_t threads) {
    int64_t count = whole((rows + 1) / 2, STEP), wide = panel_width(), full = whole(width, wide);
    int64_t beside = share(full, BESIDE, wide, threads);
    parallel((full + beside - 1) / beside, threads, [=](int64_t task) {
        int64_t start = task * beside, end = std::min(full, start + beside);
        for (int64_t k = 0; k < count; k++)
            for (int64_t column = start; column < end; column += 16) {
                int64_t at = 2 * k * width + column;
                __mmask16 there = first(width - column);
                __mmask16 even = 2 * k < rows ? there : 0, odd = 2 * k + 1 < rows ? there : 0;
                const uint16_t* halves = (const uint16_t*)from + at;
                const float* floats = (const float*)from + at;
                if (!half) fetch(floats, width * 4);
                else if (column % 32 == 0) fetch(halves, width * 2);
                __m256i a = half ? _mm256_maskz_loadu_epi16(even, halves) : rounded(_mm512_maskz_loadu_ps(even, floats));
                __m256i b = half ? _mm256_maskz_loadu_epi16(odd, halves + width)
                                 : rounded(_mm512_maskz_loadu_ps(odd, floats + width));
                uint32_t* panel = to + column / wide * wide * count;
                _mm512_storeu_si512(panel + k * wide + column % wide, pairs(a, b));
            }
    });
}

#ifdef TILES
constexpr int64_t SPAN = 512, TALL = 256, CACHED = 1 << 18;  // pairs at a time, rows at a time, pairs of a right factor

// Rows of 16 pairs, which a register holds: where a block's first 16 rows begin and its others, the way from row to row
// in bytes and from 16 pairs to the next in pairs.
struct Left {
    const uint32_t *upper, *lower;
    int64_t stride, next;
};

// The registers become the sums [32][32] of a block, or zeros, plus left · right.
static inline void multiply(Left left, const uint32_t* right, int64_t count, const float* sums) {
    tiles_read();
    if (sums) {
        _tile_loadd(0, sums, SIDE * 4);
        _tile_loadd(1, sums + 16, SIDE * 4);
        _tile_loadd(2, sums + 16 * SIDE, SIDE * 4);
        _tile_loadd(3, sums + 16 * SIDE + 16, SIDE * 4);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t k = 0; k < count; k += STEP, right += STEP * SIDE) {
        _tile_loadd(4, left.upper, left.stride);
        _tile_loadd(6, right, SIDE * 4);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, right + 16, SIDE * 4);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, left.lower, left.stride);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        left.upper += left.next, left.lower += left.next;
    }
}

static inline void put(float* sums) {
    _tile_stored(0, sums, SIDE * 4);
    _tile_stored(1, sums + 16, SIDE * 4);
    _tile_stored(2, sums + 16 * SIDE, SIDE * 4);
    _tile_stored(3, sums + 16 * SIDE + 16, SIDE * 4);
}

// A block of rows that run along the summed axis. It is read in its place where it lies there in one piece; in `room` it
// is filled up with zeros.
static Left block_of(const uint16_t* from, int64_t width, int64_t rows, int64_t pairs, uint32_t* room) {
    int64_t wide = whole(pairs, STEP);
    if (rows == SIDE && 2 * wide == width)
        return {(const uint32_t*)from, (const uint32_t*)(from + 16 * width), width * 2, STEP};
    for (int64_t row = 0; row < SIDE; row++) {
        int64_t count = row < rows ? pairs : 0;
        std::memcpy(room + row * wide, from + row * width, count * 4);
        std::memset(room + row * wide + count, 0, (wide - count) * 4);
    }
    return {room, room + 16 * wide, wide * 4, STEP};
}

static void finish_block(const float* from, const Output& out, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    int64_t at = row * out.stride + column;
    if (column + SIDE > columns || !out.half) {
        for (int64_t m = 0; m < rows; m++, at += out.stride)
            for (int64_t n = 0; n < SIDE && column + n < columns; n += 16)
                finish(_mm512_load_ps(from + m * SIDE + n), out, at + n, column + n, first(columns - column - n));
        return;
    }
    const __m512 zero = _mm512_setzero_ps(), lowest = out.relu ? zero : _mm512_set1_ps(-INFINITY);
    __m512 left = out.bias ? _mm512_loadu_ps(out.bias + column) : zero;
    __m512 right = out.bias ? _mm512_loadu_ps(out.bias + column + 16) : zero;
    for (int64_t m = 0; m < rows; m++, at += out.stride) {
        __m512 a = _mm512_max_ps(lowest, _mm512_add_ps(_mm512_load_ps(from + m * SIDE), left));
        __m512 b = _mm512_max_ps(lowest, _mm512_add_ps(_mm512_load_ps(from + m * SIDE + 16), right));
        __m512i both = (__m512i)_mm512_cvtne2ps_pbh(b, a);
        if (out.gate) {
            __m512i gate = _mm512_loadu_si512(out.gate + at);
            both = _mm512_maskz_mov_epi16(_mm512_test_epi16_mask(gate, _mm512_set1_epi16(0x7fff)), both);
        }
        _mm512_storeu_si512((uint16_t*)out.to + at, both);
        __builtin_prefetch((uint16_t*)out.to + at + 2 * SIDE, 1);  // lines of a later block, which lie far from another
    }
}

// Sums of blocks that are not finished. Where blocks are finished at once there is room for two; after the last column of a
// part the next block may get the same room, so a block is finished before the next one is put.
struct Sums {
    int64_t width, count;
    std::unique_ptr<float[]> memory;

    Sums(int64_t rows, int64_t columns, bool at_once)
        : width(columns / SIDE), count(at_once ? 2 : rows / SIDE * width), memory(new float[count * SIDE * SIDE + 16]) {}
    float* of(int64_t row, int64_t column) {
        float* first = (float*)whole((int64_t)memory.get(), 64);
        return first + (row / SIDE * width + column / SIDE) % count * SIDE * SIDE;
    }
};

// A block of rows stays in the first cache while the columns pass; as many of these at a time as stay in the second. What
// the vector registers do with a block's sums is told after the tiles have got their next block, so that both work at once.
static void product_by_tiles(
    const uint16_t* left, const uint32_t* right, int64_t rows, int64_t columns, int64_t width, const Output& out,
    int64_t threads
) {
    int64_t pairs = width / 2, high = whole(pairs, STEP),
            group = std::min(whole(columns, SIDE), CACHED / std::min(high, SPAN) / SIDE * SIDE);
    int64_t tall = share(rows, TALL, SIDE, threads);
    parallel((rows + tall - 1) / tall, threads, [=, &out](int64_t task) {
        TileRegisters registers;
        alignas(64) static thread_local uint32_t room[SIDE * SPAN];
        Sums sums(tall, group, pairs <= SPAN);
        int64_t start = task * tall, end = std::min(rows, start + tall), ready_row = -1, ready_column = 0, begin = 0;
        auto finish_ready = [&] {
            if (ready_row < 0) return;
            const float* from = sums.of(ready_row - start, ready_column - begin);
            finish_block(from, out, ready_row, std::min(SIDE, end - ready_row), ready_column, columns);
            ready_row = -1;
        };
        for (; begin < columns; finish_ready(), begin += group)
            for (int64_t k = 0; k < pairs; k += SPAN)
                for (int64_t row = start; row < end; row += SIDE) {
                    int64_t count = std::min(SPAN, pairs - k);
                    Left from = block_of(left + row * width + 2 * k, width, std::min(SIDE, end - row), count, room);
                    for (int64_t column = begin; column < std::min(columns, begin + group); column += SIDE) {
                        float* block = sums.of(row - start, column - begin);
                        multiply(from, right + column * high + k * SIDE, count, k > 0 ? block : nullptr);
                        finish_ready();
                        put(block);
                        if (k + SPAN >= pairs) ready_row = row, ready_column = column;
                    }
                }
    });
}

// Pairs of columns from `start` to `end` of a matrix become rows, in blocks of 32; and their sums are taken.
static void turn(
    const uint16_t* from, int64_t rows, int64_t columns, int64_t start, int64_t end, int64_t pair, int64_t count,
    uint32_t* to, float* sums
) {
    for (int64_t k = 0; k < count; k += STEP)
        for (int64_t column = 0; start + column < end; column += 16) {
            __mmask16 there = first(end - start - column);
            __m512 total = _mm512_loadu_ps(sums + column), block[16];
            for (int64_t q = 0; q < STEP; q++) {
                int64_t row = 2 * (pair + k + q);
                const uint16_t* at = from + row * columns + start + column;
                if (column % 32 == 0) fetch(at, columns * 2);
                __m256i a = _mm256_maskz_loadu_epi16(row < rows ? there : 0, at);
                __m256i b = _mm256_maskz_loadu_epi16(row + 1 < rows ? there : 0, at + columns);
                total = _mm512_add_ps(total, _mm512_add_ps(widened(a), widened(b)));
                block[q] = (__m512)pairs(a, b);
            }
            transpose(block);
            uint32_t* place = to + column / SIDE * SIDE * SPAN + k * SIDE + column % SIDE * STEP;
            for (int64_t q = 0; q < 16; q++) _mm512_store_ps(place + q * STEP, block[q]);
            _mm512_storeu_ps(sums + column, total);
        }
}

// As many columns of grad at a time as let the turned ones stay in the second cache.
static void outer_by_tiles(
    const uint16_t* grad, const uint32_t* right, float* to, float* bias, int64_t rows, int64_t width, int64_t columns,
    int64_t threads
) {
    int64_t high = whole((rows + 1) / 2, STEP);
    int64_t tall = share(columns, TALL, SIDE, threads);
    parallel((columns + tall - 1) / tall, threads, [=](int64_t task) {
        TileRegisters registers;
        alignas(64) static thread_local uint32_t turned[TALL * SPAN];
        Sums sums(tall, whole(width, SIDE), false);
        float totals[TALL] = {};
        int64_t start = task * tall, end = std::min(columns, start + tall);
        for (int64_t k = 0; k < high; k += SPAN) {
            int64_t count = std::min(SPAN, high - k);
            turn(grad, rows, columns, start, end, k, count, turned, totals);
            for (int64_t column = 0; column < width; column += SIDE)
                for (int64_t row = start; row < end; row += SIDE) {
                    const uint32_t* from = turned + (row - start) * SPAN;
                    float* block = sums.of(row - start, column);
                    Left left = {from, from + 16 * STEP, STEP * 4, SIDE * STEP};
                    multiply(left, right + column * high + k * SIDE, count, k > 0 ? block : nullptr);
                    put(block);
                }
        }
        for (int64_t row = start; row < end; row++)
            for (int64_t column = 0; column < width; column += SIDE) {
                const float* from = sums.of((row - start) / SIDE * SIDE, column) + (row - start) % SIDE * SIDE;
                std::memcpy(to + row * width + column, from, std::min(SIDE, width - column) * 4);
            }
        if (bias) std::memcpy(bias + start, totals, (end - start) * sizeof(float));
    });
}
#endif

static void product(
    const uint16_t* left, const uint32_t* right, int64_t rows, int64_t columns, int64_t width, const Output& out,
    int64_t threads
) {
#ifdef TILES
    if (has_tiles()) return product_by_tiles(left, right, rows, columns, width, out, threads);
#endif
    parallel((rows + BLOCK - 1) / BLOCK, threads, [=, &out](int64_t task) {
        int64_t row = task * BLOCK, here = rows - row < BLOCK ? rows - row : BLOCK;
        for (int64_t column = 0; column < columns; column += PANEL)
            panel<true>(
                (const uint32_t*)(left + row * width), width / 2, right + column * whole(width / 2, STEP), width / 2, out,
                row, here, column, columns
            );
    });
}

extern "C" {

int64_t supported() { return 1; }

// to[rows, columns] = from[rows, width] · Wᵀ + bias, W [columns, width] in float32; `room` takes the panels of W.
void forward(
    const uint16_t* from, const float* weight, const float* bias, uint32_t* room, uint16_t* to, int64_t rows,
    int64_t width, int64_t columns, int64_t relu, int64_t threads
) {
    pack_transposed(weight, columns, width, room, threads);
    product(from, room, rows, columns, width, {to, columns, true, bias, relu != 0, nullptr, false}, threads);
}

// to[rows, width] = grad[rows, columns] · W, in bfloat16 or float32, through the gate of a ReLU.
void backward(
    const uint16_t* grad, const float* weight, const uint16_t* gate, uint32_t* room, void* to, int64_t half,
    int64_t rows, int64_t width, int64_t columns, int64_t threads
) {
    pack(weight, false, columns, width, room, threads);
    product(grad, room, rows, width, columns, {to, width, half != 0, nullptr, false, gate, false}, threads);
}

// to[columns, width] = gradᵀ · from, and the sums of grad's columns for the bias; `room` takes the panels of `from`.
void outer(
    const uint16_t* grad, const uint16_t* from, uint32_t* room, float* to, float* bias, int64_t rows, int64_t width,
    int64_t columns, int64_t threads
) {
    int64_t count = (rows + 1) / 2, high = whole(count, STEP);
    pack(from, true, rows, width, room, threads);
#ifdef TILES
    if (has_tiles()) return outer_by_tiles(grad, room, to, bias, rows, width, columns, threads);
#endif
    parallel((columns + COLUMNS - 1) / COLUMNS, threads, [=](int64_t task) {
        static thread_local uint32_t turned[PAIRS * COLUMNS];
        int64_t start = task * COLUMNS, here = columns - start < COLUMNS ? columns - start : COLUMNS;
        float sums[COLUMNS] = {};
        for (int64_t k = 0; k < count; k += PAIRS) {
            int64_t length = count - k < PAIRS ? count - k : PAIRS;
            for (int64_t t = 0; t < length; t++)
                for (int64_t n = 0; n < here; n += 16) {
                    const uint16_t* row = grad + 2 * (k + t) * columns + start + n;
                    if (n % 32 == 0) fetch(row, columns * 2);
                    __mmask16 even = first(here - n), odd = 2 * (k + t) + 1 < rows ? even : 0;
                    __m256i a = _mm256_maskz_loadu_epi16(even, row), b = _mm256_maskz_loadu_epi16(odd, row + columns);
                    _mm512_storeu_si512(turned + t * COLUMNS + n, pairs(a, b));
                    if (bias)
                        _mm512_storeu_ps(
                            sums + n, _mm512_add_ps(_mm512_loadu_ps(sums + n), _mm512_add_ps(widened(a), widened(b)))
                        );
                }
            for (int64_t column = 0; column < width; column += PANEL)
                panel<false>(
                    turned, COLUMNS, room + column * high + k * PANEL, length,
                    {to, width, false, nullptr, false, nullptr, k > 0}, start, here, column, width
                );
        }
        if (bias) std::memcpy(bias + start, sums, here * sizeof(float));
    });
}

// Rows of logits become exp(logit − largest) in place; their largest, and the sums of what they became.
void exponentials(uint16_t* rows_of, float* top, float* mass, int64_t rows, int64_t width, int64_t threads) {
    parallel((rows + 15) / 16, threads, [=](int64_t task) {
        for (int64_t row = task * 16; row < rows && row < task * 16 + 16; row++) {
            uint16_t* values = rows_of + row * width;
            const __m512 least = _mm512_set1_ps(-INFINITY);
            __m512 largest = least;
            for (int64_t n = 0; n < width; n += 16) {
                __mmask16 mask = first(width - n);
                __m512 value = widened(_mm256_maskz_loadu_epi16(mask, values + n));
                largest = _mm512_mask_max_ps(largest, mask, value, largest);  // NaN in `value` is lost here, not below
            }
            float highest = _mm512_reduce_max_ps(largest);
            __m512 total = _mm512_setzero_ps();
            for (int64_t n = 0; n < width; n += 16) {
                __mmask16 mask = first(width - n);
                __m512 value = widened(_mm256_maskz_loadu_epi16(mask, values + n));
                __m512 power = exponential(_mm512_sub_ps(value, _mm512_set1_ps(highest)));
                total = _mm512_mask_add_ps(total, mask, total, power);
                _mm256_mask_storeu_epi16(values + n, mask, rounded(power));
            }
            top[row] = highest, mass[row] = _mm512_reduce_add_ps(total);
        }
    });
}
}
#else
extern "C" int64_t supported() { return 0; }
#endif
