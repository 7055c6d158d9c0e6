// Gradients become integers, whose sums have no order, in one pass over memory for each batch.
#include "prelude.h"

#include <algorithm>

constexpr int64_t BLOCK = 1 << 14;

static inline float as_float(int32_t bits) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

extern "C" {

// sums += gradient · scale, rounded towards zero, for `count` gradients; their sums stand one after the other, and those
// that are null add nothing. Returns the largest |entry|, or NaN where there is one; a block of entries with one of at
// least `limit` is not added.
float add(
    const float* const* gradients, const int64_t* sizes, int64_t count, int64_t* sums, double scale, double limit,
    int64_t threads
) {
    int64_t tasks = 0;
    for (int64_t i = 0; i < count; i++) tasks += (sizes[i] + BLOCK - 1) / BLOCK;
    const float factor = (float)scale;
    std::atomic<int32_t> largest{0};
    parallel(tasks, threads, [&](int64_t task) {
        int64_t which = 0, first = 0;
        for (int64_t blocks; task >= (blocks = (sizes[which] + BLOCK - 1) / BLOCK); which++)
            task -= blocks, first += sizes[which];
        if (!gradients[which]) return;
        const int64_t begin = task * BLOCK, size = std::min(BLOCK, sizes[which] - begin);
        const float* x = gradients[which] + begin;
        int64_t* sum = sums + first + begin;
        int32_t top = 0;  // without signs, the bits of floats have the order of their values, and NaN is above them
        for (int64_t i = 0; i < size; i++) {
            int32_t bits;
            std::memcpy(&bits, x + i, sizeof bits);
            bits &= 0x7fffffff;
            top = bits > top ? bits : top;
        }
        if (as_float(top) < limit)
            for (int64_t i = 0; i < size; i++) sum[i] += (int64_t)(x[i] * factor);
        int32_t before = largest.load();
        while (top > before && !largest.compare_exchange_weak(before, top)) {
        }
    });
    return as_float(largest.load());
}

// gradients = sums / scale, and the sums are 0 again.
void take(int64_t* sums, float* gradients, int64_t size, double scale, int64_t threads) {
    const float factor = (float)(1 / scale);
    parallel((size + BLOCK - 1) / BLOCK, threads, [=](int64_t task) {
        for (int64_t i = task * BLOCK; i < std::min(size, (task + 1) * BLOCK); i++) {
            gradients[i] = (float)sums[i] * factor;
            sums[i] = 0;
        }
    });
}
}
