// Scaled dot-product attention over short sequences that lie one after the other without padding. One task is one head
// of one sentence; four queries share what is read of keys and values; sums are in float32; only log-sum-exp is kept.
#include <algorithm>
#include <vector>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

typedef uint32_t VecUnsigned __attribute__((vector_size(64)));
typedef uint16_t VecHalf __attribute__((vector_size(32)));
constexpr int64_t QUERIES = 4;

struct Tokens {
    const void* from;
    int64_t stride, half;
};

static inline Vec read(const Tokens& tokens, int64_t at) {
    if (!tokens.half) return load((const float*)tokens.from + at);
    VecHalf half;
    std::memcpy(&half, (const uint16_t*)tokens.from + at, sizeof half);
    VecUnsigned bits = __builtin_convertvector(half, VecUnsigned) << 16;
    Vec x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

static inline void write(void* to, int64_t half, int64_t at, Vec x) {
    if (!half) return store((float*)to + at, x);
    VecUnsigned bits;
    std::memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    VecInt number = x == x;
    bits = (bits & (VecUnsigned)number) | (~(VecUnsigned)number & 0x7fc0);
    VecHalf rounded = __builtin_convertvector(bits, VecHalf);
    std::memcpy((uint16_t*)to + at, &rounded, sizeof rounded);
}

static inline float largest(Vec x) {
#ifdef __AVX512F__
    return _mm512_reduce_max_ps((__m512)x);
#else
    float parts[LANES];
    store(parts, x);
    return *std::max_element(parts, parts + LANES);
#endif
}

// One head's rows as float32, and as columns padded to whole vectors.
static void gather(const Tokens& tokens, int64_t start, int64_t count, int64_t head, int64_t dim, float* rows) {
    for (int64_t i = 0; i < count; i++)
        for (int64_t d = 0; d < dim; d += LANES)
            store(rows + i * dim + d, read(tokens, (start + i) * tokens.stride + head * dim + d));
}

#ifdef __AVX512F__
// Rows of a block of 16 × 16 become its columns: pairs, fours, eights and sixteens change places.
static inline void transpose(__m512 (&x)[16]) {
    __m512 y[16];
    for (int i = 0; i < 16; i += 2) {
        y[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; j++) {
            __m512d low = _mm512_castps_pd(y[i + j]), high = _mm512_castps_pd(y[i + j + 2]);
            x[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            x[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
    for (int i = 0; i < 4; i++) {
        y[i] = _mm512_shuffle_f32x4(x[i], x[i + 4], 0x88);
        y[i + 4] = _mm512_shuffle_f32x4(x[i], x[i + 4], 0xdd);
        y[i + 8] = _mm512_shuffle_f32x4(x[i + 8], x[i + 12], 0x88);
        y[i + 12] = _mm512_shuffle_f32x4(x[i + 8], x[i + 12], 0xdd);
    }
    for (int i = 0; i < 8; i++) {
        x[i] = _mm512_shuffle_f32x4(y[i], y[i + 8], 0x88);
        x[i + 8] = _mm512_shuffle_f32x4(y[i], y[i + 8], 0xdd);
    }
}
#endif

// Columns of keys, for products with many keys at a time; the last vector is filled up with zeros.
static void turn(const float* rows, int64_t count, int64_t dim, float* columns, int64_t width) {
#ifdef __AVX512F__
    for (int64_t i = 0; i < width; i += LANES)
        for (int64_t d = 0; d < dim; d += LANES) {
            __m512 block[16];
            for (int64_t j = 0; j < LANES; j++)
                block[j] = i + j < count ? _mm512_loadu_ps(rows + (i + j) * dim + d) : _mm512_setzero_ps();
            transpose(block);
            for (int64_t j = 0; j < LANES; j++) _mm512_storeu_ps(columns + (d + j) * width + i, block[j]);
        }
#else
    for (int64_t d = 0; d < dim; d++)
        for (int64_t i = 0; i < width; i++) columns[d * width + i] = i < count ? rows[i * dim + d] : 0.0f;
#endif
}

// out[r][j] = Σ_d rows[r][d] columns[d][j] for all keys j of a block of queries.
template <int64_t R>
static void against(const float* rows, const float* columns, int64_t dim, int64_t width, float* out) {
    for (int64_t j = 0; j < width; j += LANES) {
        Vec sums[R] = {};
        for (int64_t d = 0; d < dim; d++) {
            Vec column = load(columns + d * width + j);
            for (int64_t r = 0; r < R; r++) sums[r] += column * rows[r * dim + d];
        }
        for (int64_t r = 0; r < R; r++) store(out + r * width + j, sums[r]);
    }
}

// to[r] = Σ_j weights[r][j] rows[j], only over the keys that query r sees.
template <int64_t R>
static void gathered(
    const float* weights, int64_t width, const float* rows, int64_t dim, const int64_t* seen, Vec* to
) {
    for (int64_t d = 0; d < dim; d += LANES) {
        Vec sums[R] = {};
        for (int64_t j = 0; j < seen[0]; j++) {
            Vec row = load(rows + j * dim + d);
            for (int64_t r = 0; r < R; r++) sums[r] += row * weights[r * width + j];
        }
        for (int64_t r = 0; r < R; r++) {
            for (int64_t j = seen[0]; j < seen[r]; j++) sums[r] += load(rows + j * dim + d) * weights[r * width + j];
            to[r * (dim / LANES) + d / LANES] = sums[r];
        }
    }
}

// to[j] += Σ_r weights[r][j] rows[r], only for the keys that query r sees.
template <int64_t R>
static void scattered(
    const float* weights, int64_t width, const float* rows, int64_t dim, const int64_t* seen, float* to
) {
    for (int64_t d = 0; d < dim; d += LANES) {
        Vec row[R];
        for (int64_t r = 0; r < R; r++) row[r] = load(rows + r * dim + d);
        for (int64_t j = 0; j < seen[0]; j++) {
            Vec sum = load(to + j * dim + d);
            for (int64_t r = 0; r < R; r++) sum += row[r] * weights[r * width + j];
            store(to + j * dim + d, sum);
        }
        for (int64_t r = 1; r < R; r++)
            for (int64_t j = seen[0]; j < seen[r]; j++)
                store(to + j * dim + d, load(to + j * dim + d) + row[r] * weights[r * width + j]);
    }
}

static inline VecInt places(int64_t from) {
    const VecInt lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return lanes + (int32_t)from;
}

// Scores become weights; answers log Σ exp.
static float softmax(float* scores, int64_t width, int64_t seen, float scale) {
    Vec highest = fill(-INFINITY);
    for (int64_t j = 0; j < width; j += LANES) {
        Vec score = where(places(j) < (int32_t)seen, load(scores + j) * scale, fill(-INFINITY));
        store(scores + j, score);
        highest = where(score > highest, score, highest);
    }
    float top = largest(highest);
    if (top == -INFINITY) top = 0;
    Vec masses = {};
    for (int64_t j = 0; j < width; j += LANES) {
        Vec weight = exp(load(scores + j) - top);
        store(scores + j, weight);
        masses += weight;
    }
    float mass = sum(masses), inverse = mass > 0 || mass != mass ? 1 / mass : 0;
    for (int64_t j = 0; j < width; j += LANES) store(scores + j, load(scores + j) * inverse);
    return top + std::log(mass);
}

// Memory of a thread that is kept for the next task, on the border of a cache line.
static float* room(int64_t size) {
    static thread_local std::vector<float> memory;
    if (memory.size() < (size_t)(size + LANES)) memory.resize((size_t)(size + LANES));
    uintptr_t start = (uintptr_t)memory.data(), line = LANES * sizeof(float);
    return (float*)((start + line - 1) / line * line);
}

struct Sizes {
    const int64_t *queries, *keys;  // where each sentence begins, and where the last one ends
    int64_t heads, dim, causal;
    float scale;
};

struct Sentence {
    int64_t query, queries, key, keys, head, width;

    Sentence(const Sizes& sizes, int64_t task) {
        int64_t sentence = task / sizes.heads;
        head = task % sizes.heads;
        query = sizes.queries[sentence], queries = sizes.queries[sentence + 1] - query;
        key = sizes.keys[sentence], keys = sizes.keys[sentence + 1] - key;
        width = std::max<int64_t>((keys + LANES - 1) / LANES, 1) * LANES;
    }
};

template <int64_t R>
static void forward_block(
    const Sizes& sizes, const Sentence& here, int64_t first, const float* query, const float* turned,
    const float* value, float* scores, void* to, int64_t to_half, int64_t tokens, float* statistic
) {
    int64_t dim = sizes.dim, seen[R];
    Vec context[R * 16];
    against<R>(query + first * dim, turned, dim, here.width, scores);
    for (int64_t r = 0; r < R; r++) {
        seen[r] = sizes.causal ? std::min(first + r + 1, here.keys) : here.keys;
        float kept = softmax(scores + r * here.width, here.width, seen[r], sizes.scale);
        statistic[here.head * tokens + here.query + first + r] = kept;
    }
    gathered<R>(scores, here.width, value, dim, seen, context);
    for (int64_t r = 0; r < R; r++)
        for (int64_t d = 0; d < dim; d += LANES) {
            int64_t at = ((here.query + first + r) * sizes.heads + here.head) * dim + d;
            write(to, to_half, at, context[(r * dim + d) / LANES]);
        }
}

struct Parts {
    float *query, *key, *value, *grad, *turned_key, *turned_value, *scores, *other, *to_key, *to_value;
};

template <int64_t R>
static void backward_block(
    const Sizes& sizes, const Sentence& here, int64_t first, const Parts& at, const float* statistic, int64_t tokens,
    void* to_query, int64_t stride, int64_t half
) {
    int64_t dim = sizes.dim, width = here.width, seen[R];
    Vec context[R * 16];
    against<R>(at.query + first * dim, at.turned_key, dim, width, at.scores);
    against<R>(at.grad + first * dim, at.turned_value, dim, width, at.other);
    for (int64_t r = 0; r < R; r++) {
        seen[r] = sizes.causal ? std::min(first + r + 1, here.keys) : here.keys;
        float kept = statistic[here.head * tokens + here.query + first + r];
        float *weights = at.scores + r * width, *grads = at.other + r * width;
        Vec along = {};
        for (int64_t j = 0; j < width; j += LANES) {
            VecInt sees = places(j) < (int32_t)seen[r];
            Vec weight = where(sees, exp(load(weights + j) * sizes.scale - kept), Vec{});
            Vec grad = where(sees, load(grads + j), Vec{});
            store(weights + j, weight);
            store(grads + j, grad);
            along += weight * grad;
        }
        float mean = sum(along);
        for (int64_t j = 0; j < width; j += LANES) {
            Vec grad = load(weights + j) * (load(grads + j) - mean) * sizes.scale;
            store(grads + j, where(places(j) < (int32_t)seen[r], grad, Vec{}));
        }
    }
    scattered<R>(at.scores, width, at.grad + first * dim, dim, seen, at.to_value);
    scattered<R>(at.other, width, at.query + first * dim, dim, seen, at.to_key);
    gathered<R>(at.other, width, at.key, dim, seen, context);
    for (int64_t r = 0; r < R; r++)
        for (int64_t d = 0; d < dim; d += LANES) {
            int64_t place = (here.query + first + r) * stride + here.head * dim + d;
            write(to_query, half, place, context[(r * dim + d) / LANES]);
        }
}

extern "C" {

// to[token, head, dim] = softmax(scale · Q Kᵀ) V, and statistic[head, token] = log Σ exp.
void forward(
    const void* query, int64_t query_stride, const void* key, int64_t key_stride, const void* value,
    int64_t value_stride, int64_t half, const int64_t* queries, const int64_t* keys, int64_t sentences, int64_t heads,
    int64_t dim, int64_t causal, double scale, void* to, float* statistic, int64_t threads
) {
    Sizes sizes{queries, keys, heads, dim, causal, (float)scale};
    Tokens q{query, query_stride, half}, k{key, key_stride, half}, v{value, value_stride, half};
    parallel(sentences * heads, threads, [=, &sizes](int64_t task) {
        Sentence here(sizes, task);
        float* q_rows = room((here.queries + 2 * here.keys + here.width) * dim + QUERIES * here.width);
        float *v_rows = q_rows + here.queries * dim, *turned = v_rows + here.keys * dim;
        float *k_rows = turned + here.width * dim, *scores = k_rows + here.keys * dim;
        gather(q, here.query, here.queries, here.head, dim, q_rows);
        gather(k, here.key, here.keys, here.head, dim, k_rows);
        gather(v, here.key, here.keys, here.head, dim, v_rows);
        turn(k_rows, here.keys, dim, turned, here.width);
        int64_t first = 0, tokens = sizes.queries[sentences];
        for (; first + QUERIES <= here.queries; first += QUERIES)
            forward_block<QUERIES>(sizes, here, first, q_rows, turned, v_rows, scores, to, half, tokens, statistic);
        for (; first < here.queries; first++)
            forward_block<1>(sizes, here, first, q_rows, turned, v_rows, scores, to, half, tokens, statistic);
    });
}

void backward(
    const void* query, int64_t query_stride, const void* key, int64_t key_stride, const void* value,
    int64_t value_stride, int64_t half, const int64_t* queries, const int64_t* keys, int64_t sentences, int64_t heads,
    int64_t dim, int64_t causal, double scale, const void* grad, const float* statistic, void* to_query,
    void* to_key, void* to_value, int64_t threads
) {
    Sizes sizes{queries, keys, heads, dim, causal, (float)scale};
    Tokens q{query, query_stride, half}, k{key, key_stride, half}, v{value, value_stride, half};
    Tokens g{grad, heads * dim, half};
    parallel(sentences * heads, threads, [=, &sizes](int64_t task) {
        Sentence here(sizes, task);
        int64_t many = here.queries * dim, few = here.keys * dim, wide = here.width * dim;
        float* next = room(2 * many + 4 * few + 2 * wide + 2 * QUERIES * here.width);
        Parts at;
        auto cut = [&next](int64_t size) { return (next += size) - size; };
        at.query = cut(many), at.grad = cut(many), at.key = cut(few), at.value = cut(few);
        at.to_key = cut(few), at.to_value = cut(few), at.turned_key = cut(wide), at.turned_value = cut(wide);
        at.scores = cut(QUERIES * here.width), at.other = cut(QUERIES * here.width);
        gather(q, here.query, here.queries, here.head, dim, at.query);
        gather(g, here.query, here.queries, here.head, dim, at.grad);
        gather(k, here.key, here.keys, here.head, dim, at.key);
        gather(v, here.key, here.keys, here.head, dim, at.value);
        turn(at.key, here.keys, dim, at.turned_key, here.width);
        turn(at.value, here.keys, dim, at.turned_value, here.width);
        std::fill(at.to_key, at.to_key + 2 * few, 0.0f);
        int64_t first = 0, tokens = sizes.queries[sentences];
        for (; first + QUERIES <= here.queries; first += QUERIES)
            backward_block<QUERIES>(sizes, here, first, at, statistic, tokens, to_query, query_stride, half);
        for (; first < here.queries; first++)
            backward_block<1>(sizes, here, first, at, statistic, tokens, to_query, query_stride, half);
        for (int64_t j = 0; j < here.keys; j++)
            for (int64_t d = 0; d < dim; d += LANES) {
                int64_t place = here.head * dim + d;
                write(to_key, half, (here.key + j) * key_stride + place, load(at.to_key + j * dim + d));
                write(to_value, half, (here.key + j) * value_stride + place, load(at.to_value + j * dim + d));
            }
    });
}
}
