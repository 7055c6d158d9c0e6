// Scaled dot-product attention over short sequences, one after the other without padding or all of one length. One task
// is one head of one sentence; four queries share what is read of keys and values; sums are in float32; nothing is kept
// for the way back.
#include <algorithm>
#include <utility>
#include <vector>

constexpr int64_t QUERIES = 4, WIDEST = 256 / LANES;  // vectors of a head
constexpr int64_t STEP = 16, VECTORS = STEP / LANES;  // numbers side by side, so that enough sums are under way at once

// Numbers of tokens, by the steps from one sentence, head and place to the next.
struct Tokens {
    const void* from;
    int64_t sentence, head, place, half;
};

static inline Vec read(const Tokens& tokens, int64_t at) { return take(tokens.from, tokens.half, at); }

static inline float largest(Vec x) {
#ifdef __AVX512F__
    return _mm512_reduce_max_ps((__m512)x);
#else
    float parts[LANES];
    store(parts, x);
    return *std::max_element(parts, parts + LANES);
#endif
}

// Numbers that are written, by the same steps.
struct Target {
    void* to;
    int64_t sentence, head, place, half;
};

// A row's numbers for the next head are fetched while those of one head are read or written: they lie beside these, but from
// row to row it is too far for the processor to notice.
static inline void write(const Target& to, int64_t at, Vec x) {
    __builtin_prefetch((char*)to.to + (at + to.head) * (to.half ? 2 : 4), 1);
    put(to.to, to.half, at, x);
}

// One head's rows as float32.
static void gather(
    const Tokens& tokens, int64_t sentence, int64_t head, int64_t start, int64_t count, int64_t dim, float* rows
) {
    int64_t at = sentence * tokens.sentence + head * tokens.head + start * tokens.place;
    const char* next = (const char*)tokens.from + (at + tokens.head) * (tokens.half ? 2 : 4);
    for (int64_t i = 0; i < count; i++, next += tokens.place * (tokens.half ? 2 : 4))
        for (int64_t d = 0; d < dim; d += LANES) {
            __builtin_prefetch(next + d * (tokens.half ? 2 : 4));
            store(rows + i * dim + d, read(tokens, at + i * tokens.place + d));
        }
}

// Columns of keys, for products with many keys at a time, in panels [width / STEP, dim, STEP]; the last one is filled up with
// zeros. The columns of a matrix [dim, 256] would stand in a few sets of the cache.
static void turn(const float* rows, int64_t count, int64_t dim, float* columns, int64_t width) {
    for (int64_t i = 0; i < width; i += STEP, columns += dim * STEP) {
#ifdef __AVX512F__
        for (int64_t d = 0; d < dim; d += LANES) {
            __m512 block[16];
            for (int64_t j = 0; j < LANES; j++)
                block[j] = i + j < count ? _mm512_loadu_ps(rows + (i + j) * dim + d) : _mm512_setzero_ps();
            transpose(block);
            for (int64_t j = 0; j < LANES; j++) _mm512_storeu_ps(columns + (d + j) * STEP, block[j]);
        }
#else
        for (int64_t j = 0; j < STEP; j++)
            for (int64_t d = 0; d < dim; d++) columns[d * STEP + j] = i + j < count ? rows[(i + j) * dim + d] : 0.0f;
#endif
    }
}

// Which keys each query of a block sees: from `low` to `high`, which is not included; all of them see the inner ones, and
// vectors from `from` to `to` hold all that one of them sees.
template <int64_t R>
struct Range {
    int64_t low[R], high[R], inner_low, inner_high, from, to;

    void close() {
        int64_t least = low[0], most = high[0];
        inner_low = low[0], inner_high = high[0];
        for (int64_t r = 1; r < R; r++) {
            least = std::min(least, low[r]), most = std::max(most, high[r]);
            inner_low = std::max(inner_low, low[r]), inner_high = std::min(inner_high, high[r]);
        }
        if (inner_low >= inner_high) inner_low = inner_high = 0;
        from = least / STEP * STEP, to = std::max(from, (most + STEP - 1) / STEP * STEP);
    }

    // What query r sees besides the inner keys.
    template <typename Work>
    void outer(int64_t r, Work work) const {
        for (int64_t j = low[r]; j < std::min(high[r], inner_low); j++) work(j);
        for (int64_t j = std::max(low[r], inner_high); j < high[r]; j++) work(j);
    }
};

// out[r][j] = Σ_d rows[r][d] columns[d, j] for all keys j that one of a block of queries sees.
template <int64_t R>
static void against(
    const float* rows, const float* columns, int64_t dim, int64_t width, const Range<R>& seen, float* out
) {
    for (int64_t j = seen.from; j < seen.to; j += STEP) {
        Vec sums[R][VECTORS] = {};
        const float* panel = columns + j * dim;
        for (int64_t d = 0; d < dim; d++, panel += STEP) {
            Vec column[VECTORS];
            for (int64_t n = 0; n < VECTORS; n++) column[n] = load(panel + n * LANES);
            for (int64_t r = 0; r < R; r++)
                for (int64_t n = 0; n < VECTORS; n++) sums[r][n] += column[n] * rows[r * dim + d];
        }
        for (int64_t r = 0; r < R; r++)
            for (int64_t n = 0; n < VECTORS; n++) store(out + r * width + j + n * LANES, sums[r][n]);
    }
}

// to[r] = Σ_j weights[r][j] rows[j], only over the keys that query r sees.
template <int64_t R>
static void gathered(
    const float* weights, int64_t width, const float* rows, int64_t dim, const Range<R>& seen, Vec* to
) {
    for (int64_t d = 0; d < dim; d += STEP) {
        Vec sums[R][VECTORS] = {};
        for (int64_t j = seen.inner_low; j < seen.inner_high; j++) {
            Vec row[VECTORS];
            for (int64_t n = 0; n < VECTORS; n++) row[n] = load(rows + j * dim + d + n * LANES);
            for (int64_t r = 0; r < R; r++)
                for (int64_t n = 0; n < VECTORS; n++) sums[r][n] += row[n] * weights[r * width + j];
        }
        for (int64_t r = 0; r < R; r++)
            for (int64_t n = 0; n < VECTORS; n++) {
                Vec total = sums[r][n];
                int64_t at = d + n * LANES;
                seen.outer(r, [&](int64_t j) { total += load(rows + j * dim + at) * weights[r * width + j]; });
                to[(r * dim + at) / LANES] = total;
            }
    }
}

// to[j] += Σ_r weights[r][j] rows[r], only for the keys that query r sees.
template <int64_t R>
static void scattered(
    const float* weights, int64_t width, const float* rows, int64_t dim, const Range<R>& seen, float* to
) {
    for (int64_t d = 0; d < dim; d += STEP) {
        Vec row[R][VECTORS];
        for (int64_t r = 0; r < R; r++)
            for (int64_t n = 0; n < VECTORS; n++) row[r][n] = load(rows + r * dim + d + n * LANES);
        for (int64_t j = seen.inner_low; j < seen.inner_high; j++) {
            float* place = to + j * dim + d;
            Vec total[VECTORS];
            for (int64_t n = 0; n < VECTORS; n++) total[n] = load(place + n * LANES);
            for (int64_t r = 0; r < R; r++)
                for (int64_t n = 0; n < VECTORS; n++) total[n] += row[r][n] * weights[r * width + j];
            for (int64_t n = 0; n < VECTORS; n++) store(place + n * LANES, total[n]);
        }
        for (int64_t r = 0; r < R; r++)
            for (int64_t n = 0; n < VECTORS; n++)
                seen.outer(r, [&](int64_t j) {
                    float* place = to + j * dim + d + n * LANES;
                    store(place, load(place) + row[r][n] * weights[r * width + j]);
                });
    }
}

static inline VecInt places(int64_t from) {
    return counted_from((int32_t)from);
}

static inline VecInt within(int64_t j, int64_t low, int64_t high) {
    return (places(j) >= (int32_t)low) & (places(j) < (int32_t)high);
}

// Scores of the keys from `low` to `high` become weights.
static void softmax(float* scores, int64_t from, int64_t to, int64_t low, int64_t high, float scale) {
    Vec highest = fill(-INFINITY);
    for (int64_t j = from; j < to; j += LANES) {
        Vec score = where(within(j, low, high), load(scores + j) * scale, fill(-INFINITY));
        store(scores + j, score);
        highest = where(score > highest, score, highest);
    }
    float top = largest(highest);
    if (top == -INFINITY) top = 0;
    Vec masses = {};
    for (int64_t j = from; j < to; j += LANES) {
        Vec weight = exp(load(scores + j) - top);
        store(scores + j, weight);
        masses += weight;
    }
    float mass = sum(masses), inverse = mass > 0 || mass != mass ? 1 / mass : 0;
    for (int64_t j = from; j < to; j += LANES) store(scores + j, load(scores + j) * inverse);
}

// Memory of a thread that is kept for the next task, on the border of a cache line.
static float* room(int64_t size) {
    static thread_local std::vector<float> memory;
    if (memory.size() < (size_t)(size + STEP)) memory.resize((size_t)(size + STEP));
    uintptr_t start = (uintptr_t)memory.data(), line = STEP * sizeof(float);
    return (float*)((start + line - 1) / line * line);
}

struct Sizes {
    const int64_t *queries, *keys;  // where each sentence begins, and where the last one ends; null: all are alike
    int64_t heads, dim, causal;
    float scale;
    int64_t num_queries, num_keys;  // of each sentence, where all are alike
    const int32_t* ranges;          // from and to which key each query sees; null: `causal` says it
    int64_t to_sentence, to_head, to_query;
};

struct Sentence {
    int64_t number, head, query, queries, query_from, keys, key_from, width;

    Sentence(const Sizes& sizes, int64_t task) {
        number = task / sizes.heads, head = task % sizes.heads;
        if (sizes.queries) {
            query = query_from = sizes.queries[number], queries = sizes.queries[number + 1] - query;
            key_from = sizes.keys[number], keys = sizes.keys[number + 1] - key_from;
        } else {
            query = number * sizes.num_queries, queries = sizes.num_queries, keys = sizes.num_keys;
            query_from = key_from = 0;
        }
        width = std::max<int64_t>((keys + STEP - 1) / STEP, 1) * STEP;
    }
};

template <int64_t R>
static Range<R> range(const Sizes& sizes, const Sentence& here, int64_t first) {
    Range<R> seen;
    const int32_t* told = sizes.ranges;
    if (told) told += here.number * sizes.to_sentence + here.head * sizes.to_head;
    for (int64_t r = 0; r < R; r++) {
        seen.low[r] = told ? told[(first + r) * sizes.to_query] : 0;
        seen.high[r] = told           ? told[(first + r) * sizes.to_query + 1]
                       : sizes.causal ? std::min(first + r + 1, here.keys)
                                      : here.keys;
    }
    seen.close();
    return seen;
}

template <int64_t R>
static void forward_block(
    const Sizes& sizes, const Sentence& here, int64_t first, const float* query, const float* turned,
    const float* value, float* scores, const Target& to
) {
    int64_t dim = sizes.dim;
    Range<R> seen = range<R>(sizes, here, first);
    Vec context[R * WIDEST];
    against<R>(query + first * dim, turned, dim, here.width, seen, scores);
    for (int64_t r = 0; r < R; r++)
        softmax(scores + r * here.width, seen.from, seen.to, seen.low[r], seen.high[r], sizes.scale);
    gathered<R>(scores, here.width, value, dim, seen, context);
    int64_t at = here.number * to.sentence + here.head * to.head + (here.query_from + first) * to.place;
    for (int64_t r = 0; r < R; r++)
        for (int64_t d = 0; d < dim; d += LANES)
            write(to, at + r * to.place + d, context[(r * dim + d) / LANES]);
}

struct Parts {
    float *query, *key, *value, *grad, *turned_key, *turned_value, *scores, *other, *to_key, *to_value;
};

template <int64_t R>
static void backward_block(
    const Sizes& sizes, const Sentence& here, int64_t first, const Parts& at, const Target& to
) {
    int64_t dim = sizes.dim, width = here.width;
    Range<R> seen = range<R>(sizes, here, first);
    Vec context[R * WIDEST];
    against<R>(at.query + first * dim, at.turned_key, dim, width, seen, at.scores);
    against<R>(at.grad + first * dim, at.turned_value, dim, width, seen, at.other);
    for (int64_t r = 0; r < R; r++) {
        float *weights = at.scores + r * width, *grads = at.other + r * width;
        // As on the way there: a log-sum-exp that was kept would be rounded by more than the weights are.
        softmax(weights, seen.from, seen.to, seen.low[r], seen.high[r], sizes.scale);
        Vec along = {};
        for (int64_t j = seen.from; j < seen.to; j += LANES) {
            VecInt sees = within(j, seen.low[r], seen.high[r]);
            Vec grad = where(sees, load(grads + j), Vec{});
            store(grads + j, grad);
            along += load(weights + j) * grad;
        }
        float mean = sum(along);
        for (int64_t j = seen.from; j < seen.to; j += LANES) {
            Vec grad = load(weights + j) * (load(grads + j) - mean) * sizes.scale;
            store(grads + j, where(within(j, seen.low[r], seen.high[r]), grad, Vec{}));
        }
    }
    scattered<R>(at.scores, width, at.grad + first * dim, dim, seen, at.to_value);
    scattered<R>(at.other, width, at.query + first * dim, dim, seen, at.to_key);
    gathered<R>(at.other, width, at.key, dim, seen, context);
    int64_t place = here.number * to.sentence + here.head * to.head + (here.query_from + first) * to.place;
    for (int64_t r = 0; r < R; r++)
        for (int64_t d = 0; d < dim; d += LANES)
            write(to, place + r * to.place + d, context[(r * dim + d) / LANES]);
}

// A few queries read keys and values where they lie: turning keys would take longer than they do.
static void forward_few(
    const Sizes& sizes, const Sentence& here, const Tokens& q, const Tokens& k, const Tokens& v, const Target& to
) {
    int64_t dim = sizes.dim;
    float* scores = room(here.width);
    int64_t keys = here.number * k.sentence + here.head * k.head + here.key_from * k.place;
    int64_t values = here.number * v.sentence + here.head * v.head + here.key_from * v.place;
    for (int64_t i = 0; i < here.queries; i++) {
        Range<1> seen = range<1>(sizes, here, i);
        Vec query[WIDEST], context[WIDEST] = {};
        int64_t mine = here.number * q.sentence + here.head * q.head + (here.query_from + i) * q.place;
        for (int64_t d = 0; d < dim; d += LANES) query[d / LANES] = read(q, mine + d);
        for (int64_t j = seen.low[0]; j < seen.high[0]; j++) {
            Vec products = {};
            for (int64_t d = 0; d < dim; d += LANES) products += query[d / LANES] * read(k, keys + j * k.place + d);
            scores[j] = sum(products);
        }
        softmax(scores, seen.from, seen.to, seen.low[0], seen.high[0], sizes.scale);
        for (int64_t j = seen.low[0]; j < seen.high[0]; j++)
            for (int64_t d = 0; d < dim; d += LANES)
                context[d / LANES] += read(v, values + j * v.place + d) * scores[j];
        int64_t at = here.number * to.sentence + here.head * to.head + (here.query_from + i) * to.place;
        for (int64_t d = 0; d < dim; d += LANES) write(to, at + d, context[d / LANES]);
    }
}

static void all_forward(
    const Sizes& sizes, const Tokens& q, const Tokens& k, const Tokens& v, const Target& to, int64_t sentences,
    int64_t threads
) {
    parallel(sentences * sizes.heads, threads, [=, &sizes](int64_t task) {
        Sentence here(sizes, task);
        if (here.queries < QUERIES) return forward_few(sizes, here, q, k, v, to);
        int64_t dim = sizes.dim;
        float* q_rows = room((here.queries + 2 * here.keys + here.width) * dim + QUERIES * here.width);
        float *v_rows = q_rows + here.queries * dim, *turned = v_rows + here.keys * dim;
        float *k_rows = turned + here.width * dim, *scores = k_rows + here.keys * dim;
        gather(q, here.number, here.head, here.query_from, here.queries, dim, q_rows);
        gather(k, here.number, here.head, here.key_from, here.keys, dim, k_rows);
        gather(v, here.number, here.head, here.key_from, here.keys, dim, v_rows);
        turn(k_rows, here.keys, dim, turned, here.width);
        int64_t first = 0;
        for (; first + QUERIES <= here.queries; first += QUERIES)
            forward_block<QUERIES>(sizes, here, first, q_rows, turned, v_rows, scores, to);
        for (; first < here.queries; first++)
            forward_block<1>(sizes, here, first, q_rows, turned, v_rows, scores, to);
    });
}

static void all_backward(
    const Sizes& sizes, const Tokens& q, const Tokens& k, const Tokens& v, const Tokens& g,
    const Target& to_query, const Target& to_key, const Target& to_value, int64_t sentences, int64_t threads
) {
    parallel(sentences * sizes.heads, threads, [=, &sizes](int64_t task) {
        Sentence here(sizes, task);
        int64_t dim = sizes.dim, many = here.queries * dim, few = here.keys * dim, wide = here.width * dim;
        float* next = room(2 * many + 4 * few + 2 * wide + 2 * QUERIES * here.width);
        Parts at;
        auto cut = [&next](int64_t size) { return (next += size) - size; };
        at.query = cut(many), at.grad = cut(many), at.key = cut(few), at.value = cut(few);
        at.to_key = cut(few), at.to_value = cut(few), at.turned_key = cut(wide), at.turned_value = cut(wide);
        at.scores = cut(QUERIES * here.width), at.other = cut(QUERIES * here.width);
        gather(q, here.number, here.head, here.query_from, here.queries, dim, at.query);
        gather(g, here.number, here.head, here.query_from, here.queries, dim, at.grad);
        gather(k, here.number, here.head, here.key_from, here.keys, dim, at.key);
        gather(v, here.number, here.head, here.key_from, here.keys, dim, at.value);
        turn(at.key, here.keys, dim, at.turned_key, here.width);
        turn(at.value, here.keys, dim, at.turned_value, here.width);
        std::fill(at.to_key, at.to_key + 2 * few, 0.0f);
        int64_t first = 0;
        for (; first + QUERIES <= here.queries; first += QUERIES)
            backward_block<QUERIES>(sizes, here, first, at, to_query);
        for (; first < here.queries; first++)
            backward_block<1>(sizes, here, first, at, to_query);
        for (const auto& part : {std::make_pair(&to_key, at.to_key), std::make_pair(&to_value, at.to_value)}) {
            const Target& to = *part.first;
            int64_t place = here.number * to.sentence + here.head * to.head + here.key_from * to.place;
            for (int64_t j = 0; j < here.keys; j++)
                for (int64_t d = 0; d < dim; d += LANES)
                    write(to, place + j * to.place + d, load(part.second + j * dim + d));
        }
    });
}

extern "C" {

// to[token, head, dim] = softmax(scale · Q Kᵀ) V
void forward(
    const void* query, int64_t query_stride, const void* key, int64_t key_stride, const void* value,
    int64_t value_stride, int64_t half, const int64_t* queries, const int64_t* keys, int64_t sentences, int64_t heads,
    int64_t dim, int64_t causal, double scale, void* to, int64_t threads
) {
    Sizes sizes{queries, keys, heads, dim, causal, (float)scale};
    Tokens q{query, 0, dim, query_stride, half}, k{key, 0, dim, key_stride, half}, v{value, 0, dim, value_stride, half};
    all_forward(sizes, q, k, v, Target{to, 0, dim, heads * dim, half}, sentences, threads);
}

void backward(
    const void* query, int64_t query_stride, const void* key, int64_t key_stride, const void* value,
    int64_t value_stride, int64_t half, const int64_t* queries, const int64_t* keys, int64_t sentences, int64_t heads,
    int64_t dim, int64_t causal, double scale, const void* grad, void* to_query,
    void* to_key, void* to_value, int64_t threads
) {
    Sizes sizes{queries, keys, heads, dim, causal, (float)scale};
    Tokens q{query, 0, dim, query_stride, half}, k{key, 0, dim, key_stride, half}, v{value, 0, dim, value_stride, half};
    all_backward(
        sizes, q, k, v, Tokens{grad, 0, dim, heads * dim, half}, Target{to_query, 0, dim, query_stride, half},
        Target{to_key, 0, dim, key_stride, half}, Target{to_value, 0, dim, value_stride, half}, sentences, threads
    );
}

// Sentences that are all of one length: batch, heads, queries, keys, dim, causal, half, threads, and the steps of the
// ranges; then for each tensor its steps from one example, head and place to the next.
struct Alike {
    int64_t batch, heads, queries, keys, dim, causal, half, threads, ranges[3], steps[][3];

    Sizes sizes(double scale, const int32_t* told) const {
        return {nullptr, nullptr, heads, dim, causal, (float)scale, queries, keys, told, ranges[0], ranges[1], ranges[2]};
    }
    Tokens tokens(const void* from, int64_t number) const {
        return {from, steps[number][0], steps[number][1], steps[number][2], half};
    }
    Target target(void* to, int64_t number) const {
        return {to, steps[number][0], steps[number][1], steps[number][2], half};
    }
};

void forward_alike(
    const Alike* alike, double scale, const int32_t* ranges, const void* query, const void* key, const void* value,
    void* to
) {
    const Alike& a = *alike;
    all_forward(
        a.sizes(scale, ranges), a.tokens(query, 0), a.tokens(key, 1), a.tokens(value, 2), a.target(to, 3), a.batch,
        a.threads
    );
}

void backward_alike(
    const Alike* alike, double scale, const int32_t* ranges, const void* query, const void* key, const void* value,
    const void* grad, void* to_query, void* to_key, void* to_value
) {
    const Alike& a = *alike;
    all_backward(
        a.sizes(scale, ranges), a.tokens(query, 0), a.tokens(key, 1), a.tokens(value, 2), a.tokens(grad, 3),
        a.target(to_query, 4), a.target(to_key, 5), a.target(to_value, 6), a.batch, a.threads
    );
}
}
