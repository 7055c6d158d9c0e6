// Attention of one new position over the keys and values that a decoder keeps: one query a row and head, no masks.

typedef uint32_t VecUnsigned __attribute__((vector_size(64)));
typedef uint16_t VecHalf __attribute__((vector_size(32)));
constexpr int64_t WIDEST = 16;  // vectors of a head

static inline Vec take(const void* from, bool half, int64_t at) {
    if (!half) return load((const float*)from + at);
    VecHalf bits;
    std::memcpy(&bits, (const uint16_t*)from + at, sizeof bits);
    VecUnsigned wide = __builtin_convertvector(bits, VecUnsigned) << 16;
    Vec x;
    std::memcpy(&x, &wide, sizeof x);
    return x;
}

// To the nearest bfloat16, ties to even; NaN stays NaN.
static inline void put(void* to, bool half, int64_t at, Vec x) {
    if (!half) return store((float*)to + at, x);
    VecUnsigned bits;
    std::memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    VecInt number = x == x;
    bits = (bits & (VecUnsigned)number) | (~(VecUnsigned)number & 0x7fc0);
    VecHalf rounded = __builtin_convertvector(bits, VecHalf);
    std::memcpy((uint16_t*)to + at, &rounded, sizeof rounded);
}

extern "C" {

// to[row, head] = softmax(scale · q Kᵀ) V over the first `count` keys, or the first counts[row / beam]. Keys and values
// are [rows / beam, heads, room, dim]. `scores` has room for every row and head, rounded up to whole vectors.
void attend(
    const void* query, int64_t stride, const void* key, const void* value, int64_t half, int64_t rows, int64_t beam,
    int64_t heads, int64_t dim, int64_t room, int64_t count, const int64_t* counts, double scale, float* scores,
    void* to, int64_t threads
) {
    int64_t wide = (room + LANES - 1) / LANES * LANES, parts = dim / LANES;
    parallel(rows * heads, rows * heads < 64 ? 1 : threads, [=](int64_t task) {
        int64_t row = task / heads, head = task % heads, group = row / beam * heads + head;
        int64_t seen = counts ? counts[row / beam] : count, base = group * room * dim;
        int64_t whole = (seen + LANES - 1) / LANES * LANES;
        float* weights = scores + task * wide;
        Vec q[WIDEST], context[WIDEST];
        for (int64_t part = 0; part < parts; part++) {
            q[part] = take(query, half, row * stride + head * dim + part * LANES) * (float)scale;
            context[part] = Vec{};
        }
        float top = -INFINITY;
        for (int64_t j = 0; j < seen; j++) {
            Vec products = q[0] * take(key, half, base + j * dim);
            for (int64_t part = 1; part < parts; part++)
                products += q[part] * take(key, half, base + j * dim + part * LANES);
            weights[j] = sum(products);
            top = weights[j] > top ? weights[j] : top;
        }
        for (int64_t j = seen; j < whole; j++) weights[j] = -INFINITY;
        Vec masses = {};
        for (int64_t j = 0; j < whole; j += LANES) {
            Vec weight = exp(load(weights + j) - top);
            store(weights + j, weight);
            masses += weight;
        }
        float inverse = 1 / sum(masses);
        for (int64_t j = 0; j < seen; j++)
            for (int64_t part = 0; part < parts; part++)
                context[part] += take(value, half, base + j * dim + part * LANES) * weights[j];
        for (int64_t part = 0; part < parts; part++)
            put(to, half, task * dim + part * LANES, seen ? context[part] * inverse : Vec{});
    });
}
}
