// Dropout, the residual it falls on and the layer norm behind it, in one pass over memory each way. The noise is a hash
// of a seed, the row and the column, so the way back computes it again instead of reading a mask.

constexpr int64_t STRIP = 32, BLOCK = 64, PARTS = STRIP / LANES;

struct Noise {
    uint32_t first, second;
    int32_t limit;
    float scale;

    // SplitMix64 of seed and row (Steele et al. 2014).
    Noise(uint64_t seed, uint64_t row, int64_t limit, float scale) : limit((int32_t)limit), scale(scale) {
        uint64_t x = seed + (row + 1) * 0x9E3779B97F4A7C15u;
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
        x ^= x >> 31;
        first = (uint32_t)x, second = (uint32_t)(x >> 32);
    }

    // What a strip of neighbouring values is multiplied by: 16 bits of a hash decide each, the lower ones in its left half.
    void factors(int64_t column, Vec (&factor)[PARTS]) const {
#pragma GCC unroll 4
        for (int64_t part = 0; part < PARTS / 2; part++) {
            VecUnsigned x = (VecUnsigned)counted_from((int32_t)(column / 2 + part * LANES)) ^ first;
            x = (x ^ (x >> 16)) * 0x21f0aaadu + second;
            x = (x ^ (x >> 15)) * 0x735a2d97u;
            x ^= x >> 15;
            factor[part] = where((VecInt)(x & 0xffff) >= limit, fill(scale), Vec{});
            factor[part + PARTS / 2] = where((VecInt)(x >> 16) >= limit, fill(scale), Vec{});
        }
    }
};

extern "C" {

// sum = x + dropout(y), with x null for dropout alone. Where there is a gain: to = (sum − mean) · rstd · gain + bias.
void forward(
    const float* x, const void* y, int64_t half, uint64_t seed, int64_t limit, double scale, const float* gain,
    const float* bias, double epsilon, void* sum, int64_t sum_half, float* to, float* mean, float* rstd, int64_t rows,
    int64_t width, int64_t threads
) {
    parallel((rows + BLOCK - 1) / BLOCK, threads, [=](int64_t task) {
        for (int64_t row = task * BLOCK; row < rows && row < (task + 1) * BLOCK; row++) {
            Noise noise(seed, (uint64_t)row, limit, (float)scale);
            Vec total = {};
            for (int64_t column = 0; column < width; column += STRIP) {
                Vec factor[PARTS];
                noise.factors(column, factor);
                for (int64_t part = 0; part < PARTS; part++) {
                    int64_t at = row * width + column + part * LANES;
                    Vec value = take(y, half, at) * factor[part];
                    if (x) value += load(x + at);
                    put(sum, sum_half, at, value);
                    total += value;
                }
            }
            if (!gain) continue;
            const float* here = (const float*)sum + row * width;
            float middle = ::sum(total) / (float)width;
            Vec spread = {};
            for (int64_t column = 0; column < width; column += LANES) {
                Vec value = load(here + column) - middle;
                spread += value * value;
            }
            float inverse = (float)(1.0 / std::sqrt((double)(::sum(spread) / (float)width) + epsilon));
            for (int64_t column = 0; column < width; column += LANES)
                store(
                    to + row * width + column,
                    (load(here + column) - middle) * inverse * load(gain + column) + load(bias + column)
                );
            mean[row] = middle, rstd[row] = inverse;
        }
    });
}

// The gradients of all that: to x in float32, to y, and per block of rows the sums [2, width] to gain and bias.
void backward(
    const void* grad, int64_t grad_half, int64_t half, uint64_t seed, int64_t limit, double scale, const float* gain,
    const float* sum, const float* mean, const float* rstd, float* to_x, void* to_y, float* parts, int64_t rows,
    int64_t width, int64_t threads
) {
    parallel((rows + BLOCK - 1) / BLOCK, threads, [=](int64_t task) {
        float* to_gain = parts + 2 * task * width;
        float* to_bias = to_gain + width;
        if (gain) std::memset(to_gain, 0, 2 * (size_t)width * sizeof(float));
        for (int64_t row = task * BLOCK; row < rows && row < (task + 1) * BLOCK; row++) {
            Noise noise(seed, (uint64_t)row, limit, (float)scale);
            float average = 0, along = 0;
            if (gain) {
                Vec all = {}, weighted = {};
                for (int64_t column = 0; column < width; column += LANES) {
                    int64_t at = row * width + column;
                    Vec given = take(grad, grad_half, at), unit = (load(sum + at) - mean[row]) * rstd[row];
                    store(to_gain + column, load(to_gain + column) + given * unit);
                    store(to_bias + column, load(to_bias + column) + given);
                    given *= load(gain + column);
                    all += given, weighted += given * unit;
                }
                average = ::sum(all) / (float)width, along = ::sum(weighted) / (float)width;
            }
            for (int64_t column = 0; column < width; column += STRIP) {
                Vec factor[PARTS];
                noise.factors(column, factor);
                for (int64_t part = 0; part < PARTS; part++) {
                    int64_t at = row * width + column + part * LANES;
                    Vec value = take(grad, grad_half, at);
                    if (gain) {
                        Vec unit = (load(sum + at) - mean[row]) * rstd[row];
                        value = (value * load(gain + column + part * LANES) - average - unit * along) * rstd[row];
                    }
                    if (to_x) store(to_x + at, value);
                    put(to_y, half, at, value * factor[part]);
                }
            }
        }
    });
}
}
