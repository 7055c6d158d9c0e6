// The few best tokens of a row of logits with their log-probabilities, in one reading of the row from memory.
constexpr int64_t BLOCK = 64;  // tokens whose maximum is kept, so that most blocks are never looked at again

static inline float largest(Vec x) {
    float top = x[0];
    for (int i = 1; i < LANES; i++) top = x[i] > top ? x[i] : top;
    return top;
}

// Keeps `values` in order, best first; among equals the one that came first stays first.
static inline void insert(float value, int64_t token, int64_t count, float* values, int64_t* tokens) {
    int64_t place = count - 1;
    for (; place > 0 && values[place - 1] < value; place--) {
        values[place] = values[place - 1];
        tokens[place] = tokens[place - 1];
    }
    values[place] = value;
    tokens[place] = token;
}

static void row_leaders(
    const float* logits, int64_t vocab, const int64_t* hidden, int64_t num_hidden, int64_t count, float* maxima,
    float* values, int64_t* tokens
) {
    int64_t whole = vocab / BLOCK * BLOCK;
    float top = -INFINITY, total = 0;
    for (int64_t start = 0; start < vocab; start += BLOCK) {
        float best;
        if (start < whole) {
            Vec most = load(logits + start);
            for (int64_t i = LANES; i < BLOCK; i += LANES) {
                Vec next = load(logits + start + i);
                most = where(most < next, next, most);
            }
            best = largest(most);
        } else {
            best = logits[start];
            for (int64_t i = start + 1; i < vocab; i++) best = logits[i] > best ? logits[i] : best;
        }
        maxima[start / BLOCK] = best;
        top = best > top ? best : top;
    }
    Vec sums = {};
    for (int64_t i = 0; i + LANES <= vocab; i += LANES) sums += exp(load(logits + i) - top);
    for (int64_t i = vocab / LANES * LANES; i < vocab; i++) total += std::exp(logits[i] - top);
    for (int i = 0; i < LANES; i++) total += sums[i];
    float log_total = std::log(total);
    for (int64_t place = 0; place < count; place++) {
        values[place] = log_total == log_total ? -INFINITY : log_total;  // not a number: so is every value
        tokens[place] = 0;
    }
    if (log_total != log_total) return;
    for (int64_t start = 0; start < vocab; start += BLOCK) {
        if (!((maxima[start / BLOCK] - top) - log_total > values[count - 1])) continue;
        int64_t end = start + BLOCK < vocab ? start + BLOCK : vocab;
        for (int64_t token = start; token < end; token++) {
            float value = (logits[token] - top) - log_total;
            if (!(value > values[count - 1])) continue;
            bool shown = true;
            for (int64_t i = 0; i < num_hidden; i++) shown = shown && hidden[i] != token;
            if (shown) insert(value, token, count, values, tokens);
        }
    }
}
