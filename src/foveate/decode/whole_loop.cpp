// The steps of greedy decoding and of beam search around a model's step that is a C function. They do what `walk.py` and
// `beam.py` do, with the same float32 numbers in the same order, for constraints that hide the same tokens at every step.
#define VECTORS_OF_THIS_PROCESSOR
#include "prelude.h"
#include "leader.h"
#include <algorithm>
#include <vector>

enum Outcome : int64_t { COMPLETE, INTERRUPTED, OUTSIDE };

struct Model {
    void* run;
    int64_t (*step)(void* run, const int64_t* tokens, float* logits);  // 0: a token is not in the vocabulary
    void (*select)(void* run, const int64_t* rows, int64_t count);     // rows of sentences in their order, some left out
    int64_t vocab;
};

struct Search {
    int64_t sentences, beam, begin, end, longest;
    const int64_t *limits, *hidden;  // of each sentence; the hidden tokens
    int64_t num_hidden;
    const float* divisors;    // of hypotheses of 0, 1, …, `longest` tokens, if these are the same for all sentences
    int64_t (*interrupted)();  // or null; asked before every step
    float *logits, *maxima;
    int64_t threads;
};

// Hypotheses of each sentence and place, in order; `counts` of each sentence are those that exist.
struct Results {
    int64_t *tokens, *lengths, *counts;  // tokens [sentences, beam, longest]
    float *scores, *totals, *running;    // `running`: the best hypothesis that was not complete at the end
    uint8_t* finished;
};

static void leaders_of(const Model& model, const Search& s, int64_t rows, int64_t count, float* values, int64_t* tokens) {
    int64_t vocab = model.vocab, blocks = (vocab + BLOCK - 1) / BLOCK;
    parallel(rows, rows < 4 ? 1 : s.threads, [=, &s](int64_t row) {
        row_leaders(s.logits + row * vocab, vocab, s.hidden, s.num_hidden, count, s.maxima + row * blocks,
                    values + row * count, tokens + row * count);
    });
}

struct Complete {
    float score, total;
    bool finished;
    std::vector<int64_t> tokens;
};

struct Beam {
    int64_t sentence;
    std::vector<float> totals;
    std::vector<std::vector<int64_t>> histories;
    std::vector<Complete> pool;  // best first
};

// The order of floats as whole numbers, NaN first, and of equal numbers the earlier place first.
static int64_t rank_of(float value, int64_t place) {
    int32_t bits;
    if (value != value) value = INFINITY;
    std::memcpy(&bits, &value, sizeof bits);
    return (int64_t)(bits ^ ((bits >> 31) & 0x7fffffff)) * ((int64_t)1 << 32) - place;
}

// One step of a sentence whose hypotheses have `time` tokens. Returns whether it is done.
static bool advance(
    Beam& beam, const Search& s, int64_t vocab, int64_t time, const float* values, const int64_t* tokens, int64_t* newest,
    int64_t* parents
) {
    struct Candidate {
        int64_t rank, place, token;
        float total;
    };
    int64_t width = s.beam, count = 2 * width;
    std::vector<Candidate> candidates;
    for (int64_t place = 0; place < width; place++)
        for (int64_t i = place * count; i < (place + 1) * count; i++) {
            float total = values[i] + beam.totals[place];
            candidates.push_back({rank_of(total, place * vocab + tokens[i]), place, tokens[i], total});
        }
    std::stable_sort(candidates.begin(), candidates.end(), [](auto& a, auto& b) { return a.rank > b.rank; });
    candidates.resize(count);
    int64_t limit = s.limits[beam.sentence];
    for (int64_t i = 0; i < width; i++) {
        const Candidate& one = candidates[i];
        bool ended = one.token == s.end;
        if (!(ended || limit <= time + 1) || !(one.total > -INFINITY)) continue;
        Complete complete{one.total / s.divisors[time + 1], one.total, ended, beam.histories[one.place]};
        if (!ended) complete.tokens.push_back(one.token);
        beam.pool.push_back(complete);
    }
    std::stable_sort(beam.pool.begin(), beam.pool.end(), [](auto& a, auto& b) { return a.score > b.score; });
    if ((int64_t)beam.pool.size() > width) beam.pool.resize(width);
    std::stable_sort(candidates.begin(), candidates.end(), [&](auto& a, auto& b) {
        return (a.token == s.end) < (b.token == s.end);
    });
    std::vector<std::vector<int64_t>> histories;
    for (int64_t i = 0; i < width; i++) {
        const Candidate& one = candidates[i];
        histories.push_back(beam.histories[one.place]);
        histories.back().push_back(one.token);
        beam.totals[i] = one.token == s.end ? -INFINITY : one.total;
        newest[i] = one.token;
        parents[i] = one.place;
    }
    beam.histories = histories;
    float worst = (int64_t)beam.pool.size() < width ? -INFINITY : beam.pool.back().score;
    return limit <= time + 1 || !(beam.totals[0] / s.divisors[time + 1] > worst);
}

extern "C" {

int64_t greedy(const Model* model, const Search* search, const Results* results) {
    const Search& s = *search;
    int64_t rows = s.sentences;
    std::vector<int64_t> sentences(rows), tokens(rows, s.begin), best(rows), going(rows);
    std::vector<float> gains(rows);
    for (int64_t row = 0; row < rows; row++) sentences[row] = row;
    for (int64_t time = 0; rows; time++) {
        if (s.interrupted && s.interrupted()) return INTERRUPTED;
        if (!model->step(model->run, tokens.data(), s.logits)) return OUTSIDE;
        leaders_of(*model, s, rows, 1, gains.data(), best.data());
        int64_t left = 0;
        for (int64_t row = 0; row < rows; row++) {
            int64_t sentence = sentences[row], token = best[row];
            results->totals[sentence] += gains[row];
            if (token == s.end)
                results->finished[sentence] = 1;
            else
                results->tokens[sentence * s.longest + results->lengths[sentence]++] = token;
            if (token == s.end || s.limits[sentence] <= time + 1) continue;
            sentences[left] = sentence;
            tokens[left] = token;
            going[left++] = row;
        }
        if (left && left < rows) model->select(model->run, going.data(), left);
        rows = left;
    }
    return COMPLETE;
}

int64_t beam_search(const Model* model, const Search* search, const Results* results) {
    const Search& s = *search;
    int64_t width = s.beam, count = 2 * width;
    std::vector<Beam> beams(s.sentences);
    for (int64_t i = 0; i < s.sentences; i++) {
        beams[i] = {i, std::vector<float>(width, -INFINITY), std::vector<std::vector<int64_t>>(width), {}};
        beams[i].totals[0] = 0;  // all rows of a sentence are alike at first: only one of them is extended
    }
    std::vector<int64_t> newest(s.sentences * width, s.begin), parents(newest.size()), tokens(newest.size() * count);
    std::vector<float> values(tokens.size());
    for (int64_t time = 0; !beams.empty(); time++) {
        if (s.interrupted && s.interrupted()) return INTERRUPTED;
        if (!model->step(model->run, newest.data(), s.logits)) return OUTSIDE;
        leaders_of(*model, s, beams.size() * width, count, values.data(), tokens.data());
        size_t left = 0;
        for (size_t i = 0; i < beams.size(); i++) {
            int64_t *next = newest.data() + left * width, *parent = parents.data() + left * width, first = i * width;
            Beam& beam = beams[i];
            if (!advance(beam, s, model->vocab, time, &values[first * count], &tokens[first * count], next, parent)) {
                for (int64_t place = 0; place < width; place++) parent[place] += first;
                if (left < i) beams[left] = std::move(beam);
                left++;
                continue;
            }
            int64_t sentence = beam.sentence;
            results->counts[sentence] = beam.pool.size();
            results->running[sentence] = beam.totals[0];
            for (size_t rank = 0; rank < beam.pool.size(); rank++) {
                const Complete& one = beam.pool[rank];
                int64_t place = sentence * width + rank;
                std::copy(one.tokens.begin(), one.tokens.end(), results->tokens + place * s.longest);
                results->lengths[place] = one.tokens.size();
                results->scores[place] = one.score;
                results->totals[place] = one.total;
                results->finished[place] = one.finished;
            }
        }
        beams.resize(left);
        if (left) model->select(model->run, parents.data(), left * width);
    }
    return COMPLETE;
}
}
