// Scores e_ij = Σ_h v_h f(a_ih + b_jh) of every query with every visible key, and their gradients, without a tensor of
// all pairs times all hidden units. Callers pad the number of hidden units with zeros to a multiple of 16.
//
// f = tanh: tanh(s) = 1 − 2r with r = 1 / (1 + e^{2s}), and its derivative is 4(r − r²). From three queries on, e^{2s}
// is the product e^{2a} e^{2b}, so that the loop over pairs takes no exponential. Features beyond ±20, whose products
// could overflow, are summed before the exponential is taken. In the scores four reciprocals share one division; an
// e^{2s} that may pass 2³¹ is cut there, where r vanishes beside 1, so that four denominators can be multiplied.
// f = leaky ReLU: the pair of graph attention (GATv2).

#include "prelude.h"

#include <vector>

struct Problem {
    const float *query, *key, *vector;  // (batch·heads, queries, hidden), (batch·heads, keys, hidden), (heads or 1, hidden)
    const uint8_t* visible;             // null: all
    const float* bias;                  // null: none
    float *query_scratch, *key_scratch; // as query and key, or null where no exponentials are to be kept
    float* weights;                     // forward: out, (batch·heads, queries, keys)
    const float* grad_scores;           // backward: in, as weights
    float *grad_query, *grad_key;       // backward: out
    float* grad_vector;                 // backward: out, (batch·heads, hidden)
    int64_t visible_stride[4], bias_stride[4];
    int64_t batch, heads, queries, keys, hidden, vector_heads;
    int64_t softmax;                    // 0: weights are the scores
    int64_t leaky;                      // 0: tanh
    int64_t threads;
    float slope;                        // of the leaky ReLU
};

constexpr float FAR = 20, NEAR = 10.74f, CUT = 2147483648.0f;  // e^{2 · NEAR} < CUT
constexpr int64_t TILE = 16, KEYS = 32, ROWS = 4;

// ---- the pair functions: Σ_h v_h value_h, and value_h and slope_h for the gradient -----------------------------------

template <class Denominator, bool CUTS = true>
struct Tanh {
    static constexpr float BASE = 1, FACTOR = -2, GAIN = 4;  // f = BASE + FACTOR · value, f' = GAIN · slope
    explicit Tanh(const Problem&) {}

    template <int N>
    inline Vec weigh(const Vec* a, const Vec* b, const Vec* v) const {
        Vec d[N];
        for (int n = 0; n < N; n++) d[n] = Denominator::of(a[n], b[n]);
        if constexpr (N == 1) return v[0] * reciprocal(d[0]);
        if constexpr (CUTS)
            for (int n = 0; n < N; n++) d[n] = at_most(d[n], CUT);
        Vec d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];
        Vec first = d0 * d1, second = d2 * d3;
        return ((v[0] * d1 + v[1] * d0) * second + (v[2] * d3 + v[3] * d2) * first) * reciprocal(first * second);
    }

    template <int N>
    inline void differentiate(const Vec* a, const Vec* b, Vec* value, Vec* slope) const {
        for (int n = 0; n < N; n++) value[n] = reciprocal(Denominator::of(a[n], b[n]));
        for (int n = 0; n < N; n++) slope[n] = value[n] - value[n] * value[n];
    }
};

struct OfExponentials {
    static inline Vec of(Vec a, Vec b) { return a * b + 1.0f; }
};

struct OfFeatures {
    static inline Vec of(Vec a, Vec b) { return exp(at_least(at_most(2.0f * (a + b), 21.487562f), -80.0f)) + 1.0f; }
};

struct LeakyReLU {
    static constexpr float BASE = 0, FACTOR = 1, GAIN = 1;
    Vec below;
    explicit LeakyReLU(const Problem& p) : below(fill(p.slope)) {}

    template <int N>
    inline Vec weigh(const Vec* a, const Vec* b, const Vec* v) const {
        Vec total = {};
        for (int n = 0; n < N; n++) {
            Vec s = a[n] + b[n];
            total += v[n] * where(s < Vec{}, below * s, s);
        }
        return total;
    }

    template <int N>
    inline void differentiate(const Vec* a, const Vec* b, Vec* value, Vec* slope) const {
        for (int n = 0; n < N; n++) {
            Vec s = a[n] + b[n];
            slope[n] = where(s > Vec{}, fill(1), below);  // at 0, too, as torch has it
            value[n] = slope[n] * s;
        }
    }
};

// ---- what both directions read --------------------------------------------------------------------------------------

struct Row {  // of visibility and bias: one query, all keys
    const uint8_t* visible;
    const float* bias;
    int64_t visible_step, bias_step;

    Row(const Problem& p, int64_t head, int64_t i) {
        int64_t b = head / p.heads, h = head % p.heads;
        const int64_t *v = p.visible_stride, *s = p.bias_stride;
        visible = p.visible ? p.visible + b * v[0] + h * v[1] + i * v[2] : nullptr;
        bias = p.bias ? p.bias + b * s[0] + h * s[1] + i * s[2] : nullptr;
        visible_step = v[3], bias_step = s[3];
    }
    inline bool sees(int64_t j) const { return !visible || visible[j * visible_step]; }
    inline float shift(int64_t j) const { return bias ? bias[j * bias_step] : 0.0f; }
};

// What is known of a head's features: nothing, that they are within FAR, or that every sum of two is within NEAR.
enum Reach : uint8_t { ANY, EXPONENTIALS, ALL_NEAR };

struct Head {  // the features of one example and head, as exponentials where that is safe
    const float *query, *key, *vector;

    Head(const Problem& p, int64_t head, Reach reach) {
        query = (reach == ANY ? p.query : p.query_scratch) + head * p.queries * p.hidden;
        key = (reach == ANY ? p.key : p.key_scratch) + head * p.keys * p.hidden;
        vector = p.vector + (p.vector_heads == 1 ? 0 : head % p.heads) * p.hidden;
    }
};

// The largest |x|; infinity where one is NaN.
static inline float largest_of(const float* x, int64_t count) {
    Vec largest = {};
    VecInt lost = {};
    for (int64_t n = 0; n < count; n += LANES) {
        Vec value = load(x + n);
        lost |= value != value;
        value = where(value < Vec{}, -value, value);
        largest = where(largest < value, value, largest);
    }
    float found = 0;
    for (int lane = 0; lane < LANES; lane++) {
        if (lost[lane]) return INFINITY;
        found = found < largest[lane] ? largest[lane] : found;
    }
    return found;
}

static inline void exponentials(const float* x, float* y, int64_t count) {
    for (int64_t n = 0; n < count; n += LANES) store(y + n, exp(2.0f * load(x + n)));
}

static bool seen(const Problem& p, int64_t head, int64_t j) {
    if (!p.visible) return true;
    int64_t rows = p.visible_stride[2] ? p.queries : 1;
    for (int64_t i = rows; i-- > 0;)
        if (Row(p, head, i).sees(j)) return true;
    return false;
}

// The exponentials of one head, where they can be taken. Keys that no query sees have no say.
static Reach prepare(const Problem& p, int64_t head) {
    const float *query = p.query + head * p.queries * p.hidden, *key = p.key + head * p.keys * p.hidden;
    float *query_out = p.query_scratch + head * p.queries * p.hidden, *key_out = p.key_scratch + head * p.keys * p.hidden;
    float of_queries = largest_of(query, p.queries * p.hidden), of_keys = 0;
    if (of_queries > FAR) return ANY;
    for (int64_t j = 0; j < p.keys; j++)
        if (seen(p, head, j)) {
            float largest = largest_of(key + j * p.hidden, p.hidden);
            if (largest > FAR) return ANY;
            of_keys = of_keys < largest ? largest : of_keys;
            exponentials(key + j * p.hidden, key_out + j * p.hidden, p.hidden);
        }
    exponentials(query, query_out, p.queries * p.hidden);
    return of_queries + of_keys <= NEAR ? ALL_NEAR : EXPONENTIALS;
}

static std::vector<Reach> prepare(const Problem& p) {
    std::vector<Reach> reaches(p.batch * p.heads, ANY);
    if (p.query_scratch)
        parallel(p.batch * p.heads, p.threads, [&](int64_t head) { reaches[head] = prepare(p, head); });
    return reaches;
}

// work(pair function) with the one that is made for these features.
template <class Work>
static void with_pair(const Problem& p, Reach reach, Work work) {
    if (p.leaky) return work(LeakyReLU(p));
    if (reach == ANY) return work(Tanh<OfFeatures>(p));
    if (reach == EXPONENTIALS) return work(Tanh<OfExponentials>(p));
    work(Tanh<OfExponentials, false>(p));
}

// ---- forward --------------------------------------------------------------------------------------------------------

// Σ_h v_h value_h of R queries with one key.
template <int R, class Pair>
static inline void score(
    const Pair& pair, const float* a, const float* b, const float* v, int64_t hidden, float* to, int64_t stride
) {
    Vec total[R] = {};
    int64_t h = 0;
    for (; h + 4 * LANES <= hidden; h += 4 * LANES) {
        Vec as[4], bs[4], vs[4];
        for (int n = 0; n < 4; n++) bs[n] = load(b + h + n * LANES), vs[n] = load(v + h + n * LANES);
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) {
            for (int n = 0; n < 4; n++) as[n] = load(a + r * hidden + h + n * LANES);
            total[r] += pair.template weigh<4>(as, bs, vs);
        }
    }
    for (; h < hidden; h += LANES) {
        Vec bs = load(b + h), vs = load(v + h);
        for (int r = 0; r < R; r++) {
            Vec as = load(a + r * hidden + h);
            total[r] += pair.template weigh<1>(&as, &bs, &vs);
        }
    }
    for (int r = 0; r < R; r++) to[r * stride] = sum(total[r]);
}

// Softmax in place; what is hidden is −∞. A row that sees nothing, or −∞ alone, becomes zeros.
static void normalise(float* scores, float largest, const Row& row, int64_t keys) {
    int64_t j = 0;
    if (largest == -INFINITY) largest = 0;
    Vec totals = {};
    for (; j + LANES <= keys; j += LANES) {
        Vec e = exp(load(scores + j) - largest);
        totals += e;
        store(scores + j, e);
    }
    float rest[LANES], total = sum(totals);
    for (int n = 0; n < LANES; n++) rest[n] = j + n < keys ? scores[j + n] : -INFINITY;
    store(rest, exp(load(rest) - largest));
    for (int n = 0; j + n < keys; n++) total += scores[j + n] = rest[n];
    if (total > 0 && total < INFINITY) {
        for (j = 0; j < keys; j++) scores[j] *= 1 / total;
        return;
    }
    for (j = 0; j < keys; j++) scores[j] = total != 0 && row.sees(j) ? scores[j] / total : 0.0f;  // NaN, or nothing seen
}

// The weights of R queries. What all of them see is scored at once, because they share what is read of a key.
template <int R, class Pair>
static void forward_rows(const Problem& p, const Pair& pair, const Head& features, int64_t head, int64_t i, float base) {
    float* out = p.weights + (head * p.queries + i) * p.keys;
    const float* a = features.query + i * p.hidden;
    static_assert(R <= 4);
    const Row rows[] = {{p, head, i}, {p, head, i + 1 % R}, {p, head, i + 2 % R}, {p, head, i + 3 % R}};
    for (int64_t j = 0; p.visible && j < p.keys; j++) {
        int64_t count = 0;
        for (int64_t r = 0; r < R; r++) count += rows[r].sees(j);
        const float* b = features.key + j * p.hidden;
        if (count == R)
            score<R>(pair, a, b, features.vector, p.hidden, out + j, p.keys);
        else
            for (int64_t r = 0; count && r < R; r++)
                if (rows[r].sees(j))
                    score<1>(pair, a + r * p.hidden, b, features.vector, p.hidden, out + r * p.keys + j, p.keys);
    }
    for (int64_t j = 0; !p.visible && j < p.keys; j++)
        score<R>(pair, a, features.key + j * p.hidden, features.vector, p.hidden, out + j, p.keys);
    for (int64_t r = 0; r < R; r++, out += p.keys) {
        const Row& row = rows[r];
        float largest = -INFINITY;
        for (int64_t j = 0; j < p.keys; j++) {
            if (!row.sees(j)) {
                out[j] = p.softmax ? -INFINITY : 0;
                continue;
            }
            out[j] = base + Pair::FACTOR * out[j] + row.shift(j);
            largest = out[j] > largest ? out[j] : largest;
        }
        if (p.softmax) normalise(out, largest, row, p.keys);
    }
}

extern "C" int64_t size_of_problem() { return sizeof(Problem); }

extern "C" void forward(const Problem* problem) {
    const Problem& p = *problem;
    int64_t heads = p.batch * p.heads, tiles = (p.queries + TILE - 1) / TILE;
    std::vector<Reach> reaches = prepare(p);
    parallel(heads * tiles, p.threads, [&](int64_t task) {
        int64_t head = task / tiles, i = task % tiles * TILE, last = i + TILE < p.queries ? i + TILE : p.queries;
        Head features(p, head, reaches[head]);
        with_pair(p, reaches[head], [&](auto pair) {
            float base = 0;
            for (int64_t h = 0; h < p.hidden; h++) base += pair.BASE * features.vector[h];
            for (; i + ROWS <= last; i += ROWS) forward_rows<ROWS>(p, pair, features, head, i, base);
            for (; i < last; i++) forward_rows<1>(p, pair, features, head, i, base);
        });
    });
}

// ---- backward -------------------------------------------------------------------------------------------------------

// The gradients of 16·N hidden units from number `h` on, for one example and head.
template <int N, class Pair>
static void backward_units(const Problem& p, const Pair& pair, const Head& features, int64_t head, int64_t h) {
    alignas(64) float keys[KEYS][N * LANES], grad_keys[KEYS][N * LANES];
    const float* grads = p.grad_scores + head * p.queries * p.keys;
    float* grad_query = p.grad_query + head * p.queries * p.hidden + h;
    Vec values[N] = {}, gain[N];
    double base = 0;
    for (int n = 0; n < N; n++) gain[n] = Pair::GAIN * load(features.vector + h + n * LANES);
    for (int64_t first = 0; first < p.keys; first += KEYS) {
        int64_t count = p.keys - first < KEYS ? p.keys - first : KEYS;
        for (int64_t j = 0; j < count; j++)
            std::memcpy(keys[j], features.key + (first + j) * p.hidden + h, sizeof keys[j]);
        std::memset(grad_keys, 0, sizeof grad_keys);
        for (int64_t i = 0; i < p.queries; i++) {
            Row row(p, head, i);
            const float* grad = grads + i * p.keys + first;
            Vec a[N], total[N] = {}, seen[N] = {};
            for (int n = 0; n < N; n++) a[n] = load(features.query + i * p.hidden + h + n * LANES);
            for (int64_t j = 0; j < count; j++) {
                if (!row.sees(first + j)) continue;
                Vec b[N], value[N], slope[N], g = fill(grad[j]);
                for (int n = 0; n < N; n++) b[n] = load(keys[j] + n * LANES);
                pair.template differentiate<N>(a, b, value, slope);
                base += grad[j];
                for (int n = 0; n < N; n++) {
                    seen[n] += g * value[n];
                    total[n] += g * slope[n];
                    store(grad_keys[j] + n * LANES, load(grad_keys[j] + n * LANES) + g * slope[n]);
                }
            }
            for (int n = 0; n < N; n++) {
                values[n] += seen[n];
                float* out = grad_query + i * p.hidden + n * LANES;
                store(out, (first ? load(out) : Vec{}) + gain[n] * total[n]);
            }
        }
        for (int64_t j = 0; j < count; j++)
            for (int n = 0; n < N; n++)
                store(p.grad_key + (head * p.keys + first + j) * p.hidden + h + n * LANES,
                      gain[n] * load(grad_keys[j] + n * LANES));
    }
    for (int n = 0; n < N; n++)
        store(p.grad_vector + head * p.hidden + h + n * LANES, Pair::BASE * (float)base + Pair::FACTOR * values[n]);
}

extern "C" void backward(const Problem* problem) {
    const Problem& p = *problem;
    int64_t heads = p.batch * p.heads, parts = (p.hidden + 4 * LANES - 1) / (4 * LANES);
    std::vector<Reach> reaches = prepare(p);
    parallel(heads * parts, p.threads, [&](int64_t task) {
        int64_t head = task / parts, h = task % parts * 4 * LANES;
        Head features(p, head, reaches[head]);
        with_pair(p, reaches[head], [&](auto pair) {
            if (h + 4 * LANES <= p.hidden) return backward_units<4>(p, pair, features, head, h);
            for (; h < p.hidden; h += LANES) backward_units<1>(p, pair, features, head, h);
        });
    });
}

// ---- contexts of a few queries: a matrix product is slow for a row or two, and reads what is hidden -----------------

static inline void add(float* to, const float* from, float times, int64_t count) {
    int64_t n = 0;
    for (; n + LANES <= count; n += LANES) store(to + n, load(to + n) + times * load(from + n));
    for (; n < count; n++) to[n] += times * from[n];
}

static inline float dot(const float* a, const float* b, int64_t count) {
    Vec total = {};
    int64_t n = 0;
    for (; n + LANES <= count; n += LANES) total += load(a + n) * load(b + n);
    float rest = 0;
    for (; n < count; n++) rest += a[n] * b[n];
    return sum(total) + rest;
}

// context_i = Σ_j w_ij v_j over the visible keys.
extern "C" void weigh(const Problem* problem, int64_t dim, const float* value, float* context) {
    const Problem& p = *problem;
    parallel(p.batch * p.heads, p.threads, [&](int64_t head) {
        for (int64_t i = 0; i < p.queries; i++) {
            Row row(p, head, i);
            float* out = context + (head * p.queries + i) * dim;
            std::memset(out, 0, dim * sizeof *out);
            for (int64_t j = 0; j < p.keys; j++)
                if (row.sees(j))
                    add(out, value + (head * p.keys + j) * dim, p.weights[(head * p.queries + i) * p.keys + j], dim);
        }
    });
}

extern "C" void weigh_backward(const Problem* problem, int64_t dim, const float* value, const float* grad,
                               float* grad_weights, float* grad_value) {
    const Problem& p = *problem;
    parallel(p.batch * p.heads, p.threads, [&](int64_t head) {
        for (int64_t j = 0; j < p.keys; j++) {
            const float* v = value + (head * p.keys + j) * dim;
            float* out = grad_value + (head * p.keys + j) * dim;
            std::memset(out, 0, dim * sizeof *out);
            for (int64_t i = 0; i < p.queries; i++) {
                int64_t pair = (head * p.queries + i) * p.keys + j;
                const float* g = grad + (head * p.queries + i) * dim;
                bool seen = Row(p, head, i).sees(j);
                grad_weights[pair] = seen ? dot(g, v, dim) : 0.0f;
                if (seen) add(out, g, p.weights[pair], dim);
            }
        }
    });
}
