// Sparsemax and 1.5-entmax of whole rows: α_j = max(0, z_j − τ)^power with z_j = (e_j − max e) / power, and their
// gradients. Only what lies within 1 of the largest z can weigh anything, which is little of most rows: τ is found among
// that. ‖max(0, z − τ)‖ falls, curved, from at least 1 at τ = −1, so Newton's steps from there never pass the place where
// it is 1.

#include "prelude.h"

#include <vector>

struct Sizes {
    int64_t batch, heads, queries, keys, power, threads;
    int64_t visible_stride[4];
};

constexpr int64_t ROWS = 16;

static inline bool any(VecInt test) {
    int32_t found = 0;
    for (int n = 0; n < LANES; n++) found |= test[n];
    return found;
}

static double threshold(const std::vector<float>& z, int64_t power) {
    double tau = -1;
    for (int turn = 0; turn < 64; turn++) {
        double first = 0, total = 0, count = 0;
        for (float one : z)
            if (one > tau) first += one - tau, total += (one - tau) * (one - tau), count++;
        double norm = power == 1 ? first : std::sqrt(total), step = (norm - 1) * (power == 1 ? 1 / count : norm / first);
        if (!(step > 1e-14)) break;
        tau += step;
    }
    return tau;
}

// One row of weights. `z` and `near` are room to work in, z of whole vectors.
static void normalise(const Sizes& s, const uint8_t* visible, int64_t step, const float* scores, float* weights,
                      std::vector<float>& z, std::vector<float>& near) {
    for (int64_t j = 0; !visible && j < s.keys; j++) z[j] = scores[j];
    if (step == 1)
        for (int64_t j = 0; visible && j < s.keys; j++) z[j] = visible[j] ? scores[j] : -INFINITY;
    else
        for (int64_t j = 0; visible && j < s.keys; j++) z[j] = visible[j * step] ? scores[j] : -INFINITY;
    Vec highest = fill(-INFINITY);
    VecInt lost = {};
    for (size_t j = 0; j < z.size(); j += LANES) {
        Vec one = load(&z[j]);
        lost |= one != one;
        highest = where(one > highest, one, highest);
    }
    float top = -INFINITY;
    for (int n = 0; n < LANES; n++) top = top < highest[n] ? highest[n] : top;
    bool without = any(lost) || top == INFINITY;
    if (without || top == -INFINITY) {  // a row without weights, or that sees nothing
        for (int64_t j = 0; j < s.keys; j++) weights[j] = without && (!visible || visible[j * step]) ? NAN : 0.0f;
        return;
    }
    near.clear();
    float gain = 1.0f / s.power;
    for (size_t j = 0; j < z.size(); j += LANES) {
        Vec one = (load(&z[j]) - top) * gain;
        store(&z[j], one);
        VecInt close = one > fill(-1);
        if (any(close))
            for (int n = 0; n < LANES; n++)
                if (close[n]) near.push_back(one[n]);
    }
    float tau = threshold(near, s.power);
    for (int64_t j = 0; j < s.keys; j++) {
        float above = z[j] > tau ? z[j] - tau : 0.0f;
        weights[j] = s.power == 1 ? above : above * above;
    }
}

extern "C" void forward(const Sizes* sizes, const uint8_t* visible, const float* scores, float* weights) {
    const Sizes& s = *sizes;
    int64_t rows = s.batch * s.heads * s.queries;
    parallel((rows + ROWS - 1) / ROWS, s.threads, [&](int64_t task) {
        std::vector<float> z((s.keys + LANES - 1) / LANES * LANES, -INFINITY), near;
        for (int64_t row = task * ROWS; row < rows && row < (task + 1) * ROWS; row++) {
            const int64_t *by = s.visible_stride, head = row / s.queries;
            const uint8_t* seen = visible;
            if (seen) seen += head / s.heads * by[0] + head % s.heads * by[1] + row % s.queries * by[2];
            normalise(s, seen, by[3], scores + row * s.keys, weights + row * s.keys, z, near);
        }
    });
}

// slope ∘ (grad − Σ slope · grad / Σ slope) with slope = α^{(power − 1) / power} where α > 0.
extern "C" void backward(const Sizes* sizes, const float* weights, const float* grad, float* grad_scores) {
    const Sizes& s = *sizes;
    int64_t rows = s.batch * s.heads * s.queries;
    parallel((rows + ROWS - 1) / ROWS, s.threads, [&](int64_t task) {
        for (int64_t row = task * ROWS; row < rows && row < (task + 1) * ROWS; row++) {
            const float *w = weights + row * s.keys, *g = grad + row * s.keys;
            float* out = grad_scores + row * s.keys;
            double total = 0, mean = 0;
            for (int64_t j = 0; j < s.keys; j++) {
                out[j] = s.power == 1 ? w[j] != 0 : std::sqrt(w[j]);
                total += out[j];
            }
            for (int64_t j = 0; j < s.keys; j++)
                if (w[j] != 0) mean += (double)out[j] * g[j];
            mean /= total > 0 ? total : 1;
            for (int64_t j = 0; j < s.keys; j++) out[j] = w[j] != 0 ? out[j] * (g[j] - (float)mean) : 0.0f;
        }
    });
}
