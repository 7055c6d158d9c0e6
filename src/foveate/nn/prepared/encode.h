// A whole encoder: all layers over the tokens of all sentences without padding, and the keys and values that a decoder
// looks up. All between products is float32. A token's result depends on its sentence only, to the bit.

struct EncoderLayer {
    Product joined, output, expand, contract;
    Norm norms[2];
    double scale;
};

struct Encoder {
    const EncoderLayer* layers;
    int64_t count, width, hidden, heads, half, norm_first, activation;
    Norm norm;
    const Product* memories;  // [keys; values] of each layer of the decoder
    int64_t num_memories;
};

constexpr int64_t TOGETHER = 120;  // tokens whose vectors, hidden layer too, stay in the second cache
constexpr int64_t QUERIES = 4;     // that share what is read of keys and values

// context[token, head] = softmax(scale · q Kᵀ) V within each sentence. Queries, keys and values of a token stand side by side.
static void attend_within(
    const float* joined, const int64_t* starts, int64_t sentences, int64_t width, int64_t heads, float scale, float* context,
    int64_t threads
) {
    int64_t dim = width / heads, stride = 3 * width;
    parallel(sentences * heads, threads, [=](int64_t task) {
        int64_t head = task % heads, first = starts[task / heads] - starts[0];
        int64_t count = starts[task / heads + 1] - starts[task / heads], wide = (count + LANES - 1) / LANES * LANES;
        static thread_local std::vector<float> kept;
        if ((int64_t)kept.size() < (dim + QUERIES) * wide) kept.resize((dim + QUERIES) * wide);
        float *columns = kept.data(), *weights = columns + dim * wide;
        const float *query = joined + first * stride + head * dim, *key = query + width, *value = key + width;
        for (int64_t j = 0; j < wide; j++)
            for (int64_t d = 0; d < dim; d++) columns[d * wide + j] = j < count ? key[j * stride + d] : 0;
        for (int64_t row = 0; row < count; row += QUERIES) {
            const float* queries[QUERIES];
            for (int64_t r = 0; r < QUERIES; r++) queries[r] = query + std::min(row + r, count - 1) * stride;
            for (int64_t j = 0; j < wide; j += LANES) {
                Vec sums[QUERIES] = {};
                for (int64_t d = 0; d < dim; d++) {
                    Vec column = load(columns + d * wide + j);
                    for (int64_t r = 0; r < QUERIES; r++) sums[r] += column * queries[r][d];
                }
                for (int64_t r = 0; r < QUERIES; r++) store(weights + r * wide + j, sums[r] * scale);
            }
            float inverse[QUERIES];
            for (int64_t r = 0; r < QUERIES; r++) {
                float *own = weights + r * wide, top = -INFINITY;
                for (int64_t j = 0; j < count; j++) top = own[j] > top ? own[j] : top;
                for (int64_t j = count; j < wide; j++) own[j] = -INFINITY;
                Vec masses = {};
                for (int64_t j = 0; j < wide; j += LANES) {
                    Vec weight = exp(load(own + j) - top);
                    store(own + j, weight);
                    masses += weight;
                }
                inverse[r] = 1 / sum(masses);
            }
            for (int64_t part = 0; part < dim; part += LANES) {
                Vec sums[QUERIES] = {};
                for (int64_t j = 0; j < count; j++) {
                    Vec values = load(value + j * stride + part);
                    for (int64_t r = 0; r < QUERIES; r++) sums[r] += values * weights[r * wide + j];
                }
                for (int64_t r = 0; r < QUERIES && row + r < count; r++)
                    store(context + (first + row + r) * width + head * dim + part, sums[r] * inverse[r]);
            }
        }
    });
}

// The end of the sentences that are encoded together with the first one: up to `TOGETHER` tokens, or one longer sentence.
static int64_t end_of_group(const int64_t* starts, int64_t sentences, int64_t first) {
    int64_t last = first + 1;
    while (last < sentences && starts[last + 1] - starts[first] <= TOGETHER) last++;
    return last;
}

// What the encoder reads of each token.
struct Input {
    const void* embedding;
    const void* positions;  // a vector of each place
    double scale;
    int64_t vocab;
};

// x = scale · e + p of each token of a sentence, rounded twice as torch does.
static void embed(const Input& input, const int64_t* ids, int64_t count, int64_t width, bool half, float* x) {
    auto rounded = [=](Vec value) {
        if (!half) return value;
        uint16_t bits[LANES];
        put(bits, true, 0, value);
        return take(bits, true, 0);
    };
    for (int64_t place = 0; place < count; place++)
        for (int64_t i = 0; i < width; i += LANES)
            store(x + place * width + i, rounded(take(input.embedding, half, ids[place] * width + i) * (float)input.scale));
    __asm__ volatile("" ::: "memory");  // or the compiler would round once
    for (int64_t i = 0; i < count * width; i += LANES) store(x + i, rounded(load(x + i) + take(input.positions, half, i)));
}

// The cells in which the first of some sources get room between those of the sentences in flight.
static std::vector<int64_t> gaps(const Run& run, const int64_t* lengths, int64_t sentences) {
    const Rows& r = run.rows;
    std::vector<std::pair<int64_t, int64_t>> taken;  // beginnings and ends
    for (int64_t i = 0; i < r.count / r.beam; i++) taken.push_back({r.of_sentences[i], r.of_sentences[i] + r.lengths[i]});
    std::sort(taken.begin(), taken.end());
    std::vector<int64_t> cells;
    for (int64_t i = 0; i < sentences; i++) {
        int64_t cell = 0;
        auto next = taken.begin();
        for (; next != taken.end() && next->first < cell + lengths[i]; next++) cell = next->second;
        if (cell + lengths[i] > run.cells) break;
        taken.insert(next, {cell, cell + lengths[i]});
        cells.push_back(cell);
    }
    return cells;
}

constexpr size_t USUAL = 1 << 23;  // bytes of scratch memory that stay for the next call

template <class Number>
static void give_back(std::vector<Number>& room) {
    if (room.capacity() * sizeof(Number) > USUAL) std::vector<Number>().swap(room);
}

extern "C" {

// The most tokens that are encoded together.
int64_t tokens_together(const int64_t* starts, int64_t sentences) {
    int64_t most = 0;
    for (int64_t first = 0, last; first < sentences; first = last) {
        last = end_of_group(starts, sentences, first);
        most = std::max(most, starts[last] - starts[first]);
    }
    return most;
}

// Encodes x [tokens, width] in place, and writes keys and values [places, heads, room, dim] for each layer of the decoder
// into `kept`, up to each sentence's end; `places` of sentences (`first_key`) are by default their numbers. `starts` are
// the first tokens of sentences and the end of the last one. `work` takes (5 · width + the larger of the hidden layer and 2 · width) numbers for each token that is encoded together;
// `rounded` as many of the widest input in bfloat16, up to a multiple of 16. `watched` [layers, tokens, 3 · width], or null,
// receives queries, keys and values.
void encode(
    const Encoder* encoder, float* x, const int64_t* starts, int64_t sentences, const int64_t* places, void* const* kept,
    int64_t room, float* work, uint16_t* rounded, float* watched, int64_t threads
) {
    const Encoder& e = *encoder;
    int64_t width = e.width, dim = width / e.heads, tokens = starts[sentences];
    for (int64_t first = 0, last; first < sentences; first = last) {
        last = end_of_group(starts, sentences, first);
        int64_t here = starts[last] - starts[first];
        float *own = x + starts[first] * width, *normal = work, *context = normal + here * width;
        float *joined = context + here * width, *rest = joined + 3 * here * width;
        auto multiply_ = [=](const Product& product, const float* from, float* to, bool add, int64_t activation) {
            multiplier(product, e.half)(product, from, here, to, add, activation, threads, rounded);
        };
        auto before = [&](const Norm& norm) {
            if (!e.norm_first) return own;
            normalise(norm, own, here, width, normal);
            return normal;
        };
        auto after = [&](const Norm& norm) {
            if (!e.norm_first) normalise(norm, own, here, width, own);
        };
        for (int64_t number = 0; number < e.count; number++) {
            const EncoderLayer& layer = e.layers[number];
            multiply_(layer.joined, before(layer.norms[0]), joined, false, NONE);
            if (watched) {
                float* to = watched + (number * tokens + starts[first]) * 3 * width;
                std::memcpy(to, joined, here * 3 * width * sizeof(float));
            }
            attend_within(joined, starts + first, last - first, width, e.heads, (float)layer.scale, context, threads);
            multiply_(layer.output, context, own, true, NONE);
            after(layer.norms[0]);
            multiply_(layer.expand, before(layer.norms[1]), rest, false, e.activation);
            multiply_(layer.contract, rest, own, true, NONE);
            after(layer.norms[1]);
        }
        if (e.norm.weight) normalise(e.norm, own, here, width, own);
        for (int64_t number = 0; number < e.num_memories; number++) {
            multiply_(e.memories[number], own, rest, false, NONE);
            for (int64_t s = first; s < last; s++)
                for (int64_t place = 0, length = starts[s + 1] - starts[s]; place < length; place++) {
                    const float* from = rest + (starts[s] - starts[first] + place) * 2 * width;
                    for (int64_t i = 0; i < 2 * width; i += LANES) {
                        int64_t at = first_key(places ? places[s] : s, room, length, e.heads, i % width / dim) + place;
                        put(kept[2 * number + i / width], e.half, at * dim + i % dim, load(from + i));
                    }
                }
        }
    }
}

// Encodes sources of these lengths into gaps of a run's memory, and begins their sentences after the others, with rows in
// these free places; the first ones, as many as have room. Returns how many, or −1, and changes nothing, where a token is
// not in the vocabulary.
int64_t run_board(
    Run* run, const Encoder* encoder, const Input* input, const int64_t* ids, const int64_t* lengths, const int64_t* places,
    int64_t sentences
) {
    const Encoder& e = *encoder;
    static thread_local std::vector<float> x, work;
    static thread_local std::vector<uint16_t> rounded;
    std::vector<int64_t> starts(1, 0), cells = gaps(*run, lengths, sentences);
    for (int64_t i = 0; i < sentences; i++) starts.push_back(starts[i] + lengths[i]);
    for (int64_t i = 0; i < starts[sentences]; i++)
        if (ids[i] < 0 || ids[i] >= input->vocab) return -1;
    sentences = cells.size();
    std::vector<void*> kept;
    for (int64_t layer = 0; layer < e.num_memories; layer++) {
        kept.push_back((void*)run->kept[layer].key);
        kept.push_back((void*)run->kept[layer].value);
    }
    for (int64_t first = 0, last; first < sentences; first = last) {
        last = end_of_group(starts.data(), sentences, first);
        int64_t together = starts[last] - starts[first];
        x.resize(together * e.width);
        work.resize(together * (5 * e.width + std::max(e.hidden, 2 * e.width)));
        rounded.resize((together + 15) / 16 * 16 * std::max(e.hidden, e.width));
        std::vector<int64_t> own;
        for (int64_t i = first; i <= last; i++) own.push_back(starts[i] - starts[first]);
        for (int64_t i = first; i < last; i++)
            embed(*input, ids + starts[i], lengths[i], e.width, e.half, x.data() + own[i - first] * e.width);
        encode(encoder, x.data(), own.data(), last - first, cells.data() + first, kept.data(), 0, work.data(),
               rounded.data(), nullptr, run->threads);
    }
    run_join(run, places, cells.data(), lengths, sentences);
    give_back(x), give_back(work), give_back(rounded);
    return sentences;
}
}
