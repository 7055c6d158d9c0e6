// Rows of logits become exp(logit − largest) in place, in float32 or bfloat16: a row is read twice and written once, and
// stays in the first cache between. Sums are in float32.

extern "C" {

// For rows of at least 16 logits. The largest of each row, and the sum of what they became.
void exponentials(void* logits, int64_t half, float* top, float* mass, int64_t rows, int64_t width, int64_t threads) {
    // Where vectors do not fill a row, the last one overlaps the one before: it is read before anything is written, and
    // lanes that the other has counted are not counted again.
    int64_t full = width / LANES * LANES, last = width - LANES;
    const VecInt fresh = counted_from(0) >= (int32_t)(full - last);
    parallel((rows + 15) / 16, threads, [=](int64_t task) {
        for (int64_t row = task * 16; row < rows && row < task * 16 + 16; row++) {
            int64_t start = row * width;
            Vec end = take(logits, half, start + last), most = end;
            for (int64_t n = 0; n < full; n += LANES) {
                Vec value = take(logits, half, start + n);
                most = where(value > most, value, most);
            }
            float parts[LANES], highest = -INFINITY;
            store(parts, most);
            for (float part : parts) highest = part > highest ? part : highest;  // NaN is lost here, and not below
            Vec total = {};
            for (int64_t n = 0; n < full; n += LANES) {
                Vec power = exp(take(logits, half, start + n) - highest);
                put(logits, half, start + n, power);
                total += power;
            }
            if (full < width) {
                Vec power = exp(end - highest);
                put(logits, half, start + last, power);
                total += where(fresh, power, Vec{});
            }
            top[row] = highest, mass[row] = sum(total);
        }
    });
}
}
