// Products of matrices in bfloat16 with sums in float32, for processors with AVX-512 BF16.
//
// vdpbf16ps adds products of neighbouring pairs, so every operand is read as 32-bit pairs along the summed axis. The
// right factor comes in panels of 64 columns, [columns / 64][pairs][64]; the left one as it is where its rows run along
// the summed axis, else in pairs of rows. Tiles are 6 rows by 64 columns: 24 of the 32 vector registers.
#ifdef __AVX512BF16__
#include <immintrin.h>

#include <initializer_list>

constexpr int64_t PANEL = 64, ROWS = 6, BLOCK = 252, COLUMNS = 96, PAIRS = 256;

struct Output {
    void* to;
    int64_t stride;
    bool half;
    const float* bias;
    bool relu;
    const uint16_t* gate;  // where this is not positive, the result is 0
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
    if (out.relu) value = _mm512_max_ps(value, _mm512_setzero_ps());
    if (out.gate) {
        __m512 gate = widened(_mm256_maskz_loadu_epi16(mask, out.gate + at));
        value = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(gate, _mm512_setzero_ps(), _CMP_GT_OQ), value);
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
    int64_t count = width / 2;
    parallel((rows + PANEL - 1) / PANEL * 4, threads, [=](int64_t task) {
        alignas(64) uint32_t block[16][16];
        const __m512i down = _mm512_mullo_epi32(
            _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), _mm512_set1_epi32(16)
        );
        uint32_t* strip = to + task / 4 * count * PANEL + task % 4 * 16;
        for (int64_t k = 0; k < width; k += 32) {
            for (int64_t r = 0; r < 16; r++) {
                const float* row = from + (task * 16 + r) * width + k;
                __mmask16 low = first(width - k), high = first(width - k - 16);
                bool there = task * 16 + r < rows;
                __m512 a = there ? _mm512_maskz_loadu_ps(low, row) : _mm512_setzero_ps();
                __m512 b = there ? _mm512_maskz_loadu_ps(high, row + 16) : _mm512_setzero_ps();
                _mm512_store_si512(block[r], (__m512i)_mm512_cvtne2ps_pbh(b, a));
            }
            for (int64_t q = 0; q < 16 && k / 2 + q < count; q++)
                _mm512_storeu_si512(strip + (k / 2 + q) * PANEL, _mm512_i32gather_epi32(down, &block[0][q], 4));
        }
    });
}

// Panels of a matrix [rows, width], float32 or bfloat16, as it is: the summed axis is `rows`.
static void pack(const void* from, bool half, int64_t rows, int64_t width, uint32_t* to, int64_t threads) {
    int64_t count = (rows + 1) / 2;
    parallel((width + PANEL - 1) / PANEL, threads, [=](int64_t task) {
        for (int64_t k = 0; k < count; k++)
            for (int64_t n = 0; n < PANEL; n += 16) {
                int64_t at = 2 * k * width + task * PANEL + n;
                __mmask16 even = first(width - task * PANEL - n), odd = 2 * k + 1 < rows ? even : 0;
                const uint16_t* halves = (const uint16_t*)from + at;
                const float* floats = (const float*)from + at;
                __m256i a = half ? _mm256_maskz_loadu_epi16(even, halves) : rounded(_mm512_maskz_loadu_ps(even, floats));
                __m256i b = half ? _mm256_maskz_loadu_epi16(odd, halves + width)
                                 : rounded(_mm512_maskz_loadu_ps(odd, floats + width));
                _mm512_storeu_si512(to + (task * count + k) * PANEL + n, pairs(a, b));
            }
    });
}

static void product(
    const uint16_t* left, const uint32_t* right, int64_t rows, int64_t columns, int64_t width, const Output& out,
    int64_t threads
) {
    parallel((rows + BLOCK - 1) / BLOCK, threads, [=, &out](int64_t task) {
        int64_t row = task * BLOCK, here = rows - row < BLOCK ? rows - row : BLOCK;
        for (int64_t column = 0; column < columns; column += PANEL)
            panel<true>(
                (const uint32_t*)(left + row * width), width / 2, right + column * (width / 2), width / 2, out, row,
                here, column, columns
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
    int64_t count = (rows + 1) / 2;
    pack(from, true, rows, width, room, threads);
    parallel((columns + COLUMNS - 1) / COLUMNS, threads, [=](int64_t task) {
        static thread_local uint32_t turned[PAIRS * COLUMNS];
        int64_t start = task * COLUMNS, here = columns - start < COLUMNS ? columns - start : COLUMNS;
        float sums[COLUMNS] = {};
        for (int64_t k = 0; k < count; k += PAIRS) {
            int64_t length = count - k < PAIRS ? count - k : PAIRS;
            for (int64_t t = 0; t < length; t++)
                for (int64_t n = 0; n < here; n += 16) {
                    const uint16_t* row = grad + 2 * (k + t) * columns + start + n;
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
                    turned, COLUMNS, room + column * count + k * PANEL, length,
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
