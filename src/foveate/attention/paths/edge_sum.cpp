// Softmax attention over the edges of a graph, and its gradients. Edges are sorted by target, the node that looks; for
// the gradients of keys and values they are also listed by source. Each row of a result is written by one thread, in the
// order of its edges, so that results do not depend on the number of threads. What is kept for the backward pass is a
// weight for each edge and head; its sign bit says that dropout drops it.

#include "prelude.h"

struct Problem {
    const float *query, *key, *value;   // rows of `dim` and `value_dim` numbers for each node and head, by the strides
    const float* vector;                // (heads, dim); null for products
    const float* bias;                  // (edges, bias_heads) or null
    const int32_t *first, *source;      // the edges into target t are first[t] … first[t + 1]
    const int32_t *out_first, *out_edge, *out_target;  // the same edges by source
    float* weights;                     // (edges, heads), before dropout; negative where it is dropped
    float* context;                     // (queries, heads, value_dim)
    const float* grad_context;          // as context
    float* grad_scores;                 // (edges, heads)
    float *grad_query, *grad_key, *grad_value;  // (nodes, heads, dim)
    float* grad_vector;                 // (blocks, heads, dim)
    int64_t queries, keys, heads, dim, value_dim, bias_heads;
    int64_t query_node, query_head, key_node, key_head, value_node, value_head;  // strides
    int64_t kind;                       // 0: products, 1: leaky ReLU, 2: tanh
    int64_t drops;                      // of 2³² random numbers; 0 without dropout
    uint64_t seed;
    int64_t threads;
    float slope, scale, cooling, kept;  // of the leaky ReLU; of products; 1 / temperature; 1 / (1 − rate of dropout)
};

constexpr int64_t BLOCK = 64;  // nodes of a task
constexpr int64_t AHEAD = 6;   // edges whose rows are fetched before they are needed
constexpr int64_t RUN = 64;    // edges whose parts of a sum are added up in floats
constexpr int WIDE = 8;
typedef float Eight __attribute__((vector_size(4 * WIDE)));
typedef uint32_t EightWord __attribute__((vector_size(4 * WIDE)));

// A compiler may drop calls of functions that only fetch, and of what is passed as a function it must know the body.
#define ALWAYS __attribute__((always_inline)) inline

template <class Part = Eight>
static inline Part take(const float* from) {
    Part x;
    std::memcpy(&x, from, sizeof x);
    return x;
}

template <class Part>
static inline void put(float* to, Part x) {
    std::memcpy(to, &x, sizeof x);
}

static inline float total(const Eight& x) {
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

// Calls body(Eight{}, n) for eight numbers from n on, while there are so many, then body(0.0f, n) for each that is left.
template <int64_t SIZE, class Body>
static ALWAYS void by_eights(int64_t count, const Body& body) {
    if constexpr (SIZE) count = SIZE;
    int64_t n = 0;
    for (; n + WIDE <= count; n += WIDE) body(Eight{}, n);
    for (; n < count; n++) body(0.0f, n);
}

template <int64_t SIZE>
static inline void add(float* to, const float* from, float times, int64_t count) {
    by_eights<SIZE>(count, [&](auto kind, int64_t n) {
        using Part = decltype(kind);
        put(to + n, take<Part>(to + n) + times * take<Part>(from + n));
    });
}

// Σ of what body(Eight{} or 0.0f, n) gives.
template <int64_t SIZE, class Body>
static ALWAYS float sum_by_eights(int64_t count, const Body& body) {
    Eight eights = {};
    float rest = 0;
    by_eights<SIZE>(count, [&](auto kind, int64_t n) {
        if constexpr (sizeof kind == sizeof eights)
            eights += body(kind, n);
        else
            rest += body(kind, n);
    });
    return total(eights) + rest;
}

template <int64_t SIZE>
static inline float dot(const float* a, const float* b, int64_t count) {
    return sum_by_eights<SIZE>(count, [&](auto kind, int64_t n) {
        using Part = decltype(kind);
        return take<Part>(a + n) * take<Part>(b + n);
    });
}

static ALWAYS void fetch(const float* row, int64_t count) {
    for (int64_t n = 0; n < count; n += 16) __builtin_prefetch(row + n);
}

template <class Word>
static inline Word scrambled(Word x) {
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    x = (x ^ (x >> 15)) * 0x846CA68Bu;
    return x ^ (x >> 16);
}

// The factors of an edge's weights by dropout, for each head: 0 or `kept`. They are a hash of the seed, the edge and the
// head: by splitmix64 for the edge, and two multiplications for the head (Wellons 2018, "lowbias32").
template <int64_t SIZE = 0>
static inline void draw(const Problem& p, int64_t edge, float* factors) {
    const int64_t heads = SIZE ? SIZE : p.heads;
    uint64_t x = p.seed + (uint64_t)edge * 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    x ^= x >> 31;
    const uint32_t low = (uint32_t)x, high = (uint32_t)(x >> 32), drops = (uint32_t)p.drops;
    if (p.drops > UINT32_MAX) {
        for (int64_t h = 0; h < heads; h++) factors[h] = 0;
        return;
    }
    int64_t h = 0;
    for (; h + WIDE <= heads; h += WIDE) {
        const EightWord y = scrambled(low + (EightWord{0, 1, 2, 3, 4, 5, 6, 7} + (uint32_t)h) * 0x9E3779B9u) ^ high;
        put(factors + h, y >= drops ? Eight{} + p.kept : Eight{});
    }
    for (; h < heads; h++) factors[h] = (scrambled(low + (uint32_t)h * 0x9E3779B9u) ^ high) >= drops ? p.kept : 0.0f;
}

// ---- scores: their value, and what an edge's gradient adds to those of one of its ends and of the vector ------------

struct Product {
    static constexpr bool single = false;
    const Problem& p;
    template <int64_t SIZE>
    float of(const float* q, const float* k, const float*) const {
        return p.scale * dot<SIZE>(q, k, p.dim);
    }
    template <int64_t SIZE>
    void to_end(float g, const float*, const float* other, const float*, float* grad, float*) const {
        add<SIZE>(grad, other, g * p.scale, p.dim);
    }
};

struct Leaky {  // at 0 its slope is that of negative numbers, as in torch
    const Problem& p;
    float value(float s) const { return s > 0 ? s : s * p.slope; }
    float slope(float s) const { return s > 0 ? 1.0f : p.slope; }
    Eight value(Eight s) const { return s > Eight{} ? s : s * p.slope; }
    Eight slope(Eight s) const { return s > Eight{} ? Eight{} + 1.0f : Eight{} + p.slope; }
};

struct Tanh {
    const Problem& p;
    float value(float s) const { return std::tanh(s); }
    float slope(float s) const {
        float y = std::tanh(s);
        return 1.0f - y * y;
    }
    Eight value(Eight s) const {
        for (int i = 0; i < WIDE; i++) s[i] = std::tanh(s[i]);
        return s;
    }
    Eight slope(Eight s) const {
        Eight y = value(s);
        return 1.0f - y * y;
    }
};

template <class Function>
struct Network {
    static constexpr bool single = false;
    const Problem& p;
    Function f{p};

    template <int64_t SIZE>
    float of(const float* q, const float* k, const float* v) const {
        return sum_by_eights<SIZE>(p.dim, [&](auto kind, int64_t n) {
            using Part = decltype(kind);
            return take<Part>(v + n) * f.value(take<Part>(q + n) + take<Part>(k + n));
        });
    }
    template <int64_t SIZE>
    void to_end(float g, const float* own, const float* other, const float* v, float* grad, float* grad_vector) const {
        by_eights<SIZE>(p.dim, [&](auto kind, int64_t n) {
            using Part = decltype(kind);
            const Part s = take<Part>(own + n) + take<Part>(other + n);
            put(grad + n, take<Part>(grad + n) + g * take<Part>(v + n) * f.slope(s));
            if (grad_vector) put(grad_vector + n, take<Part>(grad_vector + n) + g * f.value(s));
        });
    }
};

// One feature for each node and head; heads stand beside each other.
template <class Function>
struct Single {
    static constexpr bool single = true;
    const Problem& p;
    Function f{p};

    template <int64_t SIZE>
    void of_heads(const float* q, const float* k, const float* v, float* scores) const {
        by_eights<SIZE>(p.heads, [&](auto kind, int64_t h) {
            using Part = decltype(kind);
            put(scores + h, take<Part>(v + h) * f.value(take<Part>(q + h) + take<Part>(k + h)));
        });
    }
    template <int64_t SIZE>
    void to_heads(const float* g, const float* own, const float* other, const float* v, float* grad,
                  float* grad_vector) const {
        by_eights<SIZE>(p.heads, [&](auto kind, int64_t h) {
            using Part = decltype(kind);
            const Part s = take<Part>(own + h) + take<Part>(other + h), times = take<Part>(g + h);
            put(grad + h, take<Part>(grad + h) + times * take<Part>(v + h) * f.slope(s));
            // What a weight of 0 is multiplied by may be infinite.
            const Part part = times != 0.0f ? times * f.value(s) : Part{};
            if (grad_vector) put(grad_vector + h, take<Part>(grad_vector + h) + part);
        });
    }
};

template <int64_t SIZE>
struct Fixed {
    static constexpr int64_t size = SIZE;
};

// The score, and the number of heads and the widths of values and of features where all are common ones.
template <class Body>
static void with_score(const Problem& p, const Body& body) {
    auto sized = [&](auto score) {
        const bool eights = p.value_dim == 8 && p.heads == 8 && (decltype(score)::single || p.dim == 8);
        if (eights) return body(score, Fixed<8>{});
        body(score, Fixed<0>{});
    };
    const bool single = p.dim == 1 && p.vector && (p.heads == 1 || (p.query_head == 1 && p.key_head == 1));
    if (single && p.kind == 1) return sized(Single<Leaky>{p});
    if (single) return body(Single<Tanh>{p}, Fixed<0>{});
    if (p.kind == 0) return sized(Product{p});
    if (p.kind == 1) return sized(Network<Leaky>{p});
    body(Network<Tanh>{p}, Fixed<0>{});
}

// ---- rows of a node, and sums over its edges ------------------------------------------------------------------------

struct Heads {
    const float* first;
    int64_t apart;
    const float* of(int64_t h) const { return first + h * apart; }
};

struct Rows {
    const Problem& p;
    Heads query(int64_t t) const { return {p.query + t * p.query_node, p.query_head}; }
    Heads key(int64_t s) const { return {p.key + s * p.key_node, p.key_head}; }
    const float* value(int64_t s, int64_t h) const { return p.value + s * p.value_node + h * p.value_head; }
    const float* vector(int64_t h) const { return p.vector ? p.vector + h * p.dim : nullptr; }
    const float* grad_context(int64_t t, int64_t h) const { return p.grad_context + (t * p.heads + h) * p.value_dim; }

    // Rows of all heads, where they stand beside each other.
    ALWAYS void fetch_seen(int64_t s) const {
        if (p.value_head == p.value_dim) fetch(value(s, 0), p.heads * p.value_dim);
        if (p.key_head == p.dim) fetch(key(s).first, p.heads * p.dim);
    }
    ALWAYS void fetch_query(int64_t t) const {
        if (p.query_head == p.dim) fetch(query(t).first, p.heads * p.dim);
    }
};

template <class Body>
static void each_block(const Problem& p, int64_t nodes, const Body& body) {
    parallel((nodes + BLOCK - 1) / BLOCK, p.threads, [&](int64_t task) {
        int64_t end = (task + 1) * BLOCK;
        body(task, task * BLOCK, end < nodes ? end : nodes);
    });
}

// A row of sums over edges. A float loses what is small beside a long sum, so that what RUN edges have added to the row
// goes into doubles, and the row begins again.
struct Sums {
    float* row;
    int64_t size;
    double* whole;  // room for as many numbers

    void clear() const { std::memset(row, 0, size * sizeof *row); }
    void open() const {
        for (int64_t n = 0; n < size; n++) whole[n] = 0;
    }
    void keep() const {
        for (int64_t n = 0; n < size; n++) whole[n] += row[n], row[n] = 0;
    }
    void close() const {
        for (int64_t n = 0; n < size; n++) row[n] = (float)whole[n];
    }
};

// Calls body(begin, end) for runs of the edges from … to − 1, whose parts of some sums it adds to their rows.
template <class Body, class... All>
static ALWAYS void in_runs(int64_t from, int64_t to, const Body& body, const All&... sums) {
    const bool many = to - from > RUN;
    (sums.clear(), ...);
    if (many) (sums.open(), ...);
    for (int64_t begin = from; begin < to; begin += RUN) {
        body(begin, begin + RUN < to ? begin + RUN : to);
        if (many) (sums.keep(), ...);
    }
    if (many) (sums.close(), ...);
}

// The same with other code for few edges: faster, but longer to compile.
template <class Body>
static ALWAYS void in_runs_or_one(int64_t from, int64_t to, const Body& body, const Sums& sums) {
    if (to - from > RUN) return in_runs(from, to, body, sums);
    sums.clear();
    body(from, to);
}

// The gradients of an edge's scores go to one of its ends, `own`, and to the vector, which may be null.
template <int64_t SIZE, class Score>
static ALWAYS void to_end(const Problem& p, const Score& score, const float* grads, const Heads& own,
                          const Heads& other, float* grad, float* grad_vector) {
    const Rows rows{p};
    if constexpr (Score::single)
        score.template to_heads<SIZE>(grads, own.first, other.first, rows.vector(0), grad, grad_vector);
    else
        for (int64_t h = 0; h < (SIZE ? SIZE : p.heads); h++)
            if (grads[h] != 0)
                score.template to_end<SIZE>(grads[h], own.of(h), other.of(h), rows.vector(h), grad + h * p.dim,
                                            grad_vector ? grad_vector + h * p.dim : nullptr);
}

// Exponentials of some numbers in place.
static inline void exponentials(float* x, int64_t count) {
    int64_t n = 0;
    for (; n + LANES <= count; n += LANES) store(x + n, exp(load(x + n)));
    if (n < count) {
        float rest[LANES] = {};
        std::memcpy(rest, x + n, (count - n) * sizeof *x);
        store(rest, exp(load(rest)));
        std::memcpy(x + n, rest, (count - n) * sizeof *x);
    }
}

// Scores, then weights, of the edges into a target. Every head is a column of `weights`.
template <int64_t SIZE, class Score>
static ALWAYS void weigh(const Problem& p, const Score& score, int64_t t, float* numbers, double* room) {
    Rows rows{p};
    const int64_t from = p.first[t], to = p.first[t + 1], heads = SIZE ? SIZE : p.heads;
    float *highest = numbers, *sums = numbers + heads;
    for (int64_t h = 0; h < heads; h++) highest[h] = -INFINITY;
    for (int64_t e = from; e < to; e++) {
        float* scores = p.weights + e * heads;
        if constexpr (Score::single)
            score.template of_heads<SIZE>(rows.query(t).first, rows.key(p.source[e]).first, rows.vector(0), scores);
        else
            for (int64_t h = 0; h < heads; h++)
                scores[h] = score.template of<SIZE>(rows.query(t).of(h), rows.key(p.source[e]).of(h), rows.vector(h));
        if (p.bias)
            for (int64_t h = 0; h < heads; h++) scores[h] += p.bias[p.bias_heads == 1 ? e : e * heads + h];
        for (int64_t h = 0; h < heads; h++) {
            scores[h] *= p.cooling;
            highest[h] = scores[h] > highest[h] ? scores[h] : highest[h];
        }
    }
    for (int64_t h = 0; h < heads; h++) highest[h] = highest[h] == -INFINITY ? 0 : highest[h];
    for (int64_t e = from; e < to; e++)
        for (int64_t h = 0; h < heads; h++) p.weights[e * heads + h] -= highest[h];
    exponentials(p.weights + from * heads, (to - from) * heads);
    const auto add_up = [&](int64_t begin, int64_t end) __attribute__((always_inline)) {
        for (int64_t e = begin; e < end; e++)
            for (int64_t h = 0; h < heads; h++) sums[h] += p.weights[e * heads + h];
    };
    in_runs_or_one(from, to, add_up, Sums{sums, heads, room});
    for (int64_t h = 0; h < heads; h++) sums[h] = sums[h] == 0 ? 1 : 1 / sums[h];
    for (int64_t e = from; e < to; e++)
        for (int64_t h = 0; h < heads; h++) p.weights[e * heads + h] *= sums[h];
}

extern "C" {
int64_t size_of_problem() { return sizeof(Problem); }
int64_t nodes_of_a_block() { return BLOCK; }

// The factor of dropout for each edge and head.
void noise(const Problem* problem, float* factors, int64_t edges) {
    const Problem& p = *problem;
    for (int64_t e = 0; e < edges; e++) draw(p, e, factors + e * p.heads);
}

// context_t = Σ_e w_e v_source(e), over the edges e into t.
void forward(const Problem* problem) {
    const Problem whole = *problem;
    with_score(whole, [&](auto score, auto width) {
        each_block(whole, whole.queries, [&](int64_t, int64_t begin, int64_t end) {
            const Problem p = whole;  // a copy that no row can overlap
            const Rows rows{p};
            constexpr int64_t SIZE = width.size;
            const int64_t heads = SIZE ? SIZE : p.heads, dim = SIZE ? SIZE : p.value_dim;
            float *numbers = new float[3 * heads], *factors = numbers + 2 * heads;
            double* room = new double[heads * dim];
            for (int64_t h = 0; h < heads; h++) factors[h] = p.kept;
            const int64_t last = p.first[end];
            for (int64_t t = begin; t < end; t++) {
                weigh<SIZE>(p, score, t, numbers, room);
                float* out = p.context + t * heads * dim;
                const auto sum = [&](int64_t from, int64_t to) __attribute__((always_inline)) {
                    for (int64_t e = from; e < to; e++) {
                        if (e + AHEAD < last) rows.fetch_seen(p.source[e + AHEAD]);
                        if (p.drops) draw<SIZE>(p, e, factors);
                        float* weights = p.weights + e * heads;
                        for (int64_t h = 0; h < heads; h++)
                            add<SIZE>(out + h * dim, rows.value(p.source[e], h), weights[h] * factors[h], dim);
                        for (int64_t h = 0; h < heads; h++)  // NaN of ∞ − ∞ has the sign of what is dropped
                            weights[h] = factors[h] != 0 ? std::fabs(weights[h]) : -std::fabs(weights[h]);
                    }
                };
                in_runs_or_one(p.first[t], p.first[t + 1], sum, Sums{out, heads * dim, room});
            }
            delete[] numbers;
            delete[] room;
        });
    });
}

void backward(const Problem* problem) {
    const Problem whole = *problem;
    with_score(whole, [&](auto score, auto width) {
        each_block(whole, whole.queries, [&](int64_t block, int64_t begin, int64_t end) {
            const Problem p = whole;
            const Rows rows{p};
            constexpr int64_t SIZE = width.size;
            const int64_t heads = SIZE ? SIZE : p.heads, dim = SIZE ? SIZE : p.value_dim, last = p.first[end];
            const int64_t features = heads * p.dim;
            float *means = new float[heads], *to_vector = p.grad_vector + block * features;
            double* room = new double[heads + 2 * features];
            const Sums of_means{means, heads, room}, of_vector{to_vector, features, room + heads};
            of_vector.clear(), of_vector.open();
            int64_t edges = 0;  // that have added to the vector since its sums were kept
            for (int64_t t = begin; t < end; t++) {
                float* to_query = p.grad_query + t * features;
                const auto weigh = [&](int64_t from, int64_t to) {
                    for (int64_t e = from; e < to; e++) {
                        if (e + AHEAD < last) rows.fetch_seen(p.source[e + AHEAD]);
                        const float* weights = p.weights + e * heads;
                        float* grads = p.grad_scores + e * heads;
                        for (int64_t h = 0; h < heads; h++)
                            grads[h] = dot<SIZE>(rows.grad_context(t, h), rows.value(p.source[e], h), dim);
                        for (int64_t h = 0; h < heads; h++) {
                            grads[h] *= std::signbit(weights[h]) ? 0 : p.kept;
                            means[h] += weights[h] * grads[h];
                        }
                    }
                };
                const auto sum = [&](int64_t from, int64_t to) {
                    for (int64_t e = from; e < to; e++) {
                        const float* weights = p.weights + e * heads;
                        float* grads = p.grad_scores + e * heads;
                        for (int64_t h = 0; h < heads; h++)
                            grads[h] = p.cooling * std::fabs(weights[h]) * (grads[h] - means[h]);
                        to_end<SIZE>(p, score, grads, rows.query(t), rows.key(p.source[e]), to_query, to_vector);
                    }
                    edges += to - from;
                    if (edges >= RUN) of_vector.keep(), edges = 0;
                };
                in_runs(p.first[t], p.first[t + 1], weigh, of_means);
                in_runs(p.first[t], p.first[t + 1], sum, Sums{to_query, features, room + heads + features});
            }
            of_vector.keep(), of_vector.close();
            delete[] means;
            delete[] room;
        });
        each_block(whole, whole.keys, [&](int64_t, int64_t begin, int64_t end) {
            const Problem p = whole;
            const Rows rows{p};
            constexpr int64_t SIZE = width.size;
            const int64_t heads = SIZE ? SIZE : p.heads, dim = SIZE ? SIZE : p.value_dim, last = p.out_first[end];
            const int64_t features = heads * p.dim;
            double* room = new double[features + heads * dim];
            for (int64_t s = begin; s < end; s++) {
                float *to_key = p.grad_key + s * features, *to_value = p.grad_value + s * heads * dim;
                const auto sum = [&](int64_t from, int64_t to) {
                    for (int64_t i = from; i < to; i++) {
                        if (i + AHEAD < last) {
                            fetch(rows.grad_context(p.out_target[i + AHEAD], 0), heads * dim);
                            rows.fetch_query(p.out_target[i + AHEAD]);
                            fetch(p.weights + p.out_edge[i + AHEAD] * heads, heads);
                            fetch(p.grad_scores + p.out_edge[i + AHEAD] * heads, heads);
                        }
                        const int64_t e = p.out_edge[i], t = p.out_target[i];
                        const float *grads = p.grad_scores + e * heads, *weights = p.weights + e * heads;
                        to_end<SIZE>(p, score, grads, rows.key(s), rows.query(t), to_key, nullptr);
                        for (int64_t h = 0; h < heads; h++)
                            add<SIZE>(to_value + h * dim, rows.grad_context(t, h),
                                      weights[h] * (std::signbit(weights[h]) ? 0 : p.kept), dim);
                    }
                };
                in_runs(p.out_first[s], p.out_first[s + 1], sum, Sums{to_key, features, room},
                        Sums{to_value, heads * dim, room + features});
            }
            delete[] room;
        });
    });
}
}
