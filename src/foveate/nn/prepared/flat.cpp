#include "prelude.h"
#include "product.h"
#include "int8.h"
#include <vector>
// One new position of a decoder: its attention over the keys and values that are kept, one query a row and head and no
// masks; and, for a few rows, the whole step.

constexpr int64_t WIDEST = 256 / LANES;  // vectors of a head

// to[row, head] = softmax(scale · q Kᵀ) V over the first `count` keys, or the first counts[row / beam]. Keys and values
// are [places, heads, room, dim]. Those of a row stand at the place row / beam, or at places[row / beam], as `first_key`
// says; or, with a table [rows, room], each key stands at a place of its own.
struct Attention {
    const void* query;
    bool half_query;
    int64_t stride;
    const void *key, *value;
    bool half;
    int64_t rows, beam, heads, dim, room, count;
    const int64_t *counts, *places;
    const int32_t* table;
    float scale;
    void* to;
    bool half_to;
};

// Where the keys of a place and a head begin, in vectors of a head. Without `room` a place is the cell in which a sequence
// begins, and its heads have only its length.
static inline int64_t first_key(int64_t place, int64_t room, int64_t length, int64_t heads, int64_t head) {
    return room ? (place * heads + head) * room : place * heads + head * length;
}

// softmax(scale · q Kᵀ) V of one row and head, where key j begins at the number base(j).
template <class Base>
static inline void attend_one(const Attention& a, int64_t task, int64_t seen, float* weights, Base base) {
    int64_t row = task / a.heads, head = task % a.heads, parts = a.dim / LANES;
    int64_t whole = (seen + LANES - 1) / LANES * LANES;
    Vec q[WIDEST], context[WIDEST];
    for (int64_t part = 0; part < parts; part++) {
        q[part] = take(a.query, a.half_query, row * a.stride + head * a.dim + part * LANES) * a.scale;
        context[part] = Vec{};
    }
    float top = -INFINITY;
    for (int64_t j = 0; j < seen; j++) {
        int64_t at = base(j);
        Vec products = q[0] * take(a.key, a.half, at);
        for (int64_t part = 1; part < parts; part++) products += q[part] * take(a.key, a.half, at + part * LANES);
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
    for (int64_t j = 0; j < seen; j++) {
        int64_t at = base(j);
        for (int64_t part = 0; part < parts; part++)
            context[part] += take(a.value, a.half, at + part * LANES) * weights[j];
    }
    for (int64_t part = 0; part < parts; part++)
        put(a.to, a.half_to, task * a.dim + part * LANES, seen ? context[part] * inverse : Vec{});
}

static void attention(const Attention& a, int64_t threads) {
    parallel(a.rows * a.heads, a.rows * a.heads < 64 ? 1 : threads, [=, &a](int64_t task) {
        int64_t row = task / a.heads, head = task % a.heads, group = row / a.beam;
        int64_t seen = a.counts ? a.counts[group] : a.count, dim = a.dim;
        static thread_local std::vector<float> room;
        if ((int64_t)room.size() < seen + LANES) room.resize(seen + LANES);
        float* weights = room.data();
        if (a.table) {
            const int32_t* places = a.table + row * a.room;
            int64_t first = head * a.room, next = a.heads * a.room;
            attend_one(a, task, seen, weights, [=](int64_t j) { return (places[j] * next + first + j) * dim; });
        } else {
            int64_t first = first_key(a.places ? a.places[group] : group, a.room, seen, a.heads, head) * dim;
            attend_one(a, task, seen, weights, [=](int64_t j) { return first + j * dim; });
        }
    });
}

// A whole step of a decoder. All between its products is float32. The structures are those of `flat_step.py`.
struct Norm {
    const float *weight, *bias;  // null: no norm
    double epsilon;
};

struct Layer {
    Product joined, output, cross_query, cross_output, expand, contract;  // no weights: no cross-attention
    Norm norms[3];
    double scales[2];
};

struct Decoder {
    const Layer* layers;
    int64_t count, width, heads, half, norm_first, activation;
    const void* embedding;
    double scale;
    Norm norm;
    Product logits;
};

struct Kept {
    void* cache;  // [2, places of rows, heads, room, dim]
    const void *key, *value;  // [places of sentences, heads, room, dim], for cross-attention
};

// Where rows stand in time and in the caches. Each pointer may be null, `lengths` without cross-attention.
struct Rows {
    int64_t count, beam, latest;
    const int64_t *times, *lengths;  // of each row, by default `latest`; of each sentence's source
    int64_t places, cache_room, memory_room;  // places of rows in the cache; no room: sources stand side by side
    const int64_t* of_sentences;  // the place of each sentence in the memory (`first_key`); by default sentence after sentence
    const int64_t* of_rows;       // the place of each row in the cache; by default row after row
    int32_t* table;  // [rows, cache_room]: the place of each earlier position of a row, if not its own; here the newest is added
};

static void normalise(const Norm& norm, const float* x, int64_t rows, int64_t width, float* to) {
    for (int64_t row = 0; row < rows; row++, x += width, to += width) {
        Vec total = {}, squares = {};
        for (int64_t i = 0; i < width; i += LANES) total += load(x + i);
        float mean = sum(total) / width;
        for (int64_t i = 0; i < width; i += LANES) {
            Vec away = load(x + i) - mean;
            squares += away * away;
        }
        float factor = 1 / std::sqrt(sum(squares) / width + (float)norm.epsilon);
        for (int64_t i = 0; i < width; i += LANES)
            store(to + i, (load(x + i) - mean) * factor * load(norm.weight + i) + load(norm.bias + i));
    }
}

// The logits [rows, vocab] after the tokens, which stand at the rows' times; 0 where a token is not in the vocabulary.
// `position` holds one vector for all rows, or one for each, `apart` numbers after each other. `counts` takes a number for
// each row. `room` takes 6 · rows · width and the hidden layer; `rounded` rows of the widest input in bfloat16, up to a
// multiple of 16; `queries` [layers, 2, rows, width] tells what attentions were asked.
static int64_t logits_after(
    const Decoder* decoder, const Kept* kept, const Rows* stand, const int64_t* tokens, const void* position,
    int64_t apart, int64_t* counts, float* room, uint16_t* rounded, float* queries, float* logits, int64_t threads
) {
    const Rows& r = *stand;
    int64_t rows = r.count;
    const Decoder& d = *decoder;
    int64_t width = d.width, dim = width / d.heads, size = rows * width;
    bool half = d.half != 0;
    auto multiply_ = [=](const Product& product, const float* x, int64_t rows, float* to, bool add, int64_t activation,
                         int64_t threads) { multiplier(product, half)(product, x, rows, to, add, activation, threads, rounded); };
    float *x = room, *normal = x + size, *joined = normal + size, *context = joined + 3 * size, *rest = context + size;
    for (int64_t row = 0; row < rows; row++) {
        int64_t time = r.times ? r.times[row] : r.latest;
        counts[row] = time + 1;
        if (r.table) r.table[row * r.cache_room + time] = (int32_t)(r.of_rows ? r.of_rows[row] : row);
    }
    for (int64_t row = 0; row < rows; row++)
        if (tokens[row] < 0 || tokens[row] >= d.logits.outputs) return 0;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t i = 0; i < width; i += LANES)
            store(
                x + row * width + i,
                take(d.embedding, half, tokens[row] * width + i) * (float)d.scale + take(position, half, row * apart + i)
            );
    auto before = [&](const Norm& norm) {
        if (!d.norm_first) return x;
        normalise(norm, x, rows, width, normal);
        return normal;
    };
    auto after = [&](const Norm& norm) {
        if (!d.norm_first) normalise(norm, x, rows, width, x);
    };
    for (int64_t number = 0; number < d.count; number++, kept++, queries += 2 * size) {
        const Layer& layer = d.layers[number];
        multiply_(layer.joined, before(layer.norms[0]), rows, joined, false, NONE, threads);
        for (int64_t row = 0; row < rows; row++) {
            std::memcpy(queries + row * width, joined + row * 3 * width, width * sizeof(float));
            int64_t place = r.of_rows ? r.of_rows[row] : row;
            for (int64_t part = 0; part < 2; part++)
                for (int64_t i = 0; i < width; i += LANES) {
                    int64_t head = ((part * r.places + place) * d.heads + i / dim) * r.cache_room + counts[row] - 1;
                    put(kept->cache, half, head * dim + i % dim, load(joined + (row * 3 + 1 + part) * width + i));
                }
        }
        const char* cache = (const char*)kept->cache;
        const char* values = cache + r.places * width * r.cache_room * (half ? 2 : 4);
        attention(
            {queries, false, width, cache, values, half, rows, 1, d.heads, dim, r.cache_room, 0, counts, r.of_rows, r.table,
             (float)layer.scales[0], context, false},
            threads
        );
        multiply_(layer.output, context, rows, x, true, NONE, threads);
        after(layer.norms[0]);

        if (layer.cross_query.weight) {
            multiply_(layer.cross_query, before(layer.norms[1]), rows, queries + size, false, NONE, threads);
            attention(
                {queries + size, false, width, kept->key, kept->value, half, rows, r.beam, d.heads, dim, r.memory_room, 0,
                 r.lengths, r.of_sentences, nullptr, (float)layer.scales[1], context, false},
                threads
            );
            multiply_(layer.cross_output, context, rows, x, true, NONE, threads);
            after(layer.norms[1]);
        }

        multiply_(layer.expand, before(layer.norms[2]), rows, rest, false, d.activation, threads);
        multiply_(layer.contract, rest, rows, x, true, NONE, threads);
        after(layer.norms[2]);
    }
    if (d.norm.weight) normalise(d.norm, x, rows, width, x);
    multiply_(d.logits, x, rows, logits, false, NONE, threads);
    return 1;
}

extern "C" {

void attend(
    const void* query, int64_t stride, const void* key, const void* value, int64_t half, int64_t rows, int64_t beam,
    int64_t heads, int64_t dim, int64_t room, int64_t count, const int64_t* counts, double scale, void* to, int64_t threads
) {
    bool short_ = half != 0;
    attention(
        {query, short_, stride, key, value, short_, rows, beam, heads, dim, room, count, counts, nullptr, nullptr,
         (float)scale, to, short_},
        threads
    );
}

// How panels are laid out: their width, and how many bfloat16 weights stand together.
int64_t panel_width() { return PANEL; }
int64_t panel_pair() { return PAIR; }

int64_t step(
    const Decoder* decoder, const Kept* kept, const Rows* stand, const int64_t* tokens, const void* position,
    int64_t apart, int64_t* counts, float* room, uint16_t* rounded, float* queries, float* logits, int64_t threads
) {
    return logits_after(decoder, kept, stand, tokens, position, apart, counts, room, rounded, queries, logits, threads);
}

// Steps of sentences that begin at different times, each in a place of its own. What `Rows` points to is changed.
struct Run {
    const Decoder* decoder;
    const Kept* kept;
    Rows rows;
    const char* positions;  // a vector of each time
    char* standing;         // room for one of each row
    int64_t* counts;
    float* room;
    uint16_t* rounded;
    float* queries;
    int32_t* spare;  // as large as the table
    int64_t threads;
    int64_t cells;  // of the memory, where sources stand side by side
};

int64_t run_step(Run* run, const int64_t* tokens, float* logits) {
    const Decoder& d = *run->decoder;
    const Rows& r = run->rows;
    auto* times = (int64_t*)r.times;
    int64_t size = d.width * (d.half ? 2 : 4);
    for (int64_t row = 0; row < r.count; row++)
        std::memcpy(run->standing + row * size, run->positions + times[row] * size, size);
    if (!logits_after(&d, run->kept, &r, tokens, run->standing, d.width, run->counts, run->room, run->rounded,
                      run->queries, logits, run->threads))
        return 0;
    for (int64_t row = 0; row < r.count; row++) times[row]++;
    return 1;
}

// Each of the new rows continues one of the old ones of its sentence; sentences keep their order, and some may be missing.
void run_select(Run* run, const int64_t* rows, int64_t count) {
    Rows& r = run->rows;
    auto *of_sentences = (int64_t*)r.of_sentences, *of_rows = (int64_t*)r.of_rows;
    auto *lengths = (int64_t*)r.lengths, *times = (int64_t*)r.times;
    if (r.table) {
        for (int64_t row = 0; row < count; row++)
            std::memcpy(run->spare + row * r.cache_room, r.table + rows[row] * r.cache_room, times[rows[row]] * sizeof(int32_t));
        std::swap(r.table, run->spare);
    }
    for (int64_t sentence = 0; sentence < count / r.beam; sentence++) {
        int64_t old = rows[sentence * r.beam] / r.beam;
        of_sentences[sentence] = of_sentences[old];
        lengths[sentence] = lengths[old];
        for (int64_t place = 0; place < r.beam; place++) {
            of_rows[sentence * r.beam + place] = of_rows[old * r.beam + place];
            times[sentence * r.beam + place] = times[old * r.beam + place];
        }
    }
    r.count = count;
}

// Sentences whose sources of these lengths stand at `sources` in the memory come last, before their first token, with rows
// in `places`.
void run_join(
    Run* run, const int64_t* places, const int64_t* sources, const int64_t* source_lengths, int64_t sentences
) {
    Rows& r = run->rows;
    auto *of_sentences = (int64_t*)r.of_sentences, *of_rows = (int64_t*)r.of_rows;
    auto *lengths = (int64_t*)r.lengths, *times = (int64_t*)r.times;
    for (int64_t i = 0, sentence = r.count / r.beam; i < sentences; i++, sentence++) {
        of_sentences[sentence] = sources[i];
        lengths[sentence] = source_lengths[i];
        for (int64_t place = 0; place < r.beam; place++) {
            of_rows[sentence * r.beam + place] = places[i] * r.beam + place;
            times[sentence * r.beam + place] = 0;
        }
    }
    r.count += sentences * r.beam;
}
}

#include "encode.h"
