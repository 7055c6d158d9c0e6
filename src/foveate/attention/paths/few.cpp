// context_i = Σ_j w_ij v_j over the visible keys, for few queries: a matrix product is slow for a row or two, and reads
// what is hidden. One task is one example and head.

#define VECTORS_OF_THIS_PROCESSOR
#include "prelude.h"

struct Sizes {
    int64_t batch, heads, queries, keys, dim, threads;
    int64_t visible_stride[4];
};

static inline bool sees(const Sizes& s, const uint8_t* visible, int64_t head, int64_t i, int64_t j) {
    const int64_t* stride = s.visible_stride;
    if (!visible) return true;
    return visible[head / s.heads * stride[0] + head % s.heads * stride[1] + i * stride[2] + j * stride[3]];
}

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

extern "C" void forward(const Sizes* sizes, const uint8_t* visible, const float* weights, const float* value,
                        float* context) {
    const Sizes& s = *sizes;
    parallel(s.batch * s.heads, s.threads, [&](int64_t head) {
        for (int64_t i = 0; i < s.queries; i++) {
            float* out = context + (head * s.queries + i) * s.dim;
            std::memset(out, 0, s.dim * sizeof *out);
            for (int64_t j = 0; j < s.keys; j++)
                if (sees(s, visible, head, i, j))
                    add(out, value + (head * s.keys + j) * s.dim, weights[(head * s.queries + i) * s.keys + j], s.dim);
        }
    });
}

extern "C" void backward(const Sizes* sizes, const uint8_t* visible, const float* weights, const float* value,
                         const float* grad, float* grad_weights, float* grad_value) {
    const Sizes& s = *sizes;
    parallel(s.batch * s.heads, s.threads, [&](int64_t head) {
        for (int64_t j = 0; j < s.keys; j++) {
            const float* v = value + (head * s.keys + j) * s.dim;
            float* out = grad_value + (head * s.keys + j) * s.dim;
            std::memset(out, 0, s.dim * sizeof *out);
            for (int64_t i = 0; i < s.queries; i++) {
                int64_t pair = (head * s.queries + i) * s.keys + j;
                const float* g = grad + (head * s.queries + i) * s.dim;
                bool seen = sees(s, visible, head, i, j);
                grad_weights[pair] = seen ? dot(g, v, s.dim) : 0.0f;
                if (seen) add(out, g, weights[pair], s.dim);
            }
        }
    });
}
