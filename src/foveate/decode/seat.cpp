// Beam search and greedy decoding of sentences that come and go, each in a seat of its own. They do what `beam.py` and
// `walk.py` do, with the same float32 numbers in the same order, for constraints that hide the same tokens of all sentences.
#include "prelude.h"
#include "leader.h"
#include <algorithm>
#include <vector>

enum Outcome : int64_t { INTERRUPTED = -2, OUTSIDE = -1 };

// The structures are those of `seat.py`.
struct Seats {
    int64_t beam, room, vocab, end, shortest, greedy;
    const int64_t* hidden;  // tokens that never come, then the end
    int64_t num_hidden;     // without the end
    int64_t *age, *limit;   // [seats], in tokens
    const float* const* divisors;  // [seats], of hypotheses of 0, 1, 2 … tokens
    float* total;                  // [seats, beam]: sums of log-probabilities, best first
    int32_t* history;              // [seats, beam, room]
    float *score, *complete_total;  // [seats, beam]: complete hypotheses, best first; −∞ in free places
    int64_t *length, *finished;     // [seats, beam], without the end token
    int32_t* complete;              // [seats, beam, room]
    int64_t *seats, *token, *parent;  // of the sentences in their order; of the rows: the newest token, the row it continues
    int64_t* done;                    // the seats of sentences that are done
    float *maxima, *values;           // room for every block of every row, and for the 2 · beam best of every row
    int64_t* tokens;                  // as many
};

struct Model {
    void* run;
    int64_t (*step)(void* run, const int64_t* tokens, float* logits);  // 0: a token is not in the vocabulary
    void (*select)(void* run, const int64_t* rows, int64_t count);     // rows of sentences in their order, some left out
};

struct Candidate {
    float value;
    int64_t place, token;

    // As in `ordered` of `candidate.py`: NaN comes first, -0 after 0, and of equal values the earlier place and token.
    int32_t rank() const {
        if (value != value) return 0x7f800000;
        int32_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        return bits ^ ((bits >> 31) & 0x7fffffff);
    }
    bool operator<(const Candidate& other) const {
        if (rank() != other.rank()) return rank() > other.rank();
        return place != other.place ? place < other.place : token < other.token;
    }
};

// A hypothesis that is complete: the candidate's beginning and, unless that is the end, its token.
static void keep_complete(const Seats& s, int64_t seat, const Candidate& best, const int32_t* histories) {
    int64_t first = seat * s.beam, age = s.age[seat], place = s.greedy ? 0 : s.beam;
    float score = s.greedy ? best.value : best.value / s.divisors[seat][age + 1];
    while (place > 0 && !(s.score[first + place - 1] >= score)) place--;
    if (place == s.beam) return;
    for (int64_t other = s.beam - 1; other > place; other--) {
        int64_t to = first + other, from = to - 1;
        s.score[to] = s.score[from], s.complete_total[to] = s.complete_total[from];
        s.length[to] = s.length[from], s.finished[to] = s.finished[from];
        std::copy_n(s.complete + from * s.room, s.length[from], s.complete + to * s.room);
    }
    int64_t at = first + place;
    int32_t* tokens = s.complete + at * s.room;
    s.score[at] = score, s.complete_total[at] = best.value, s.finished[at] = best.token == s.end;
    s.length[at] = age + (best.token != s.end);
    std::copy_n(histories + best.place * age, age, tokens);
    tokens[age] = (int32_t)best.token;
}

// One more token of the sentence in a seat, whose best extensions are in order. Whether the sentence is done.
static bool extended(const Seats& s, int64_t seat, const std::vector<Candidate>& best, int64_t first_row, int64_t* token,
                     int64_t* parent) {
    int64_t beam = s.beam, age = s.age[seat], continued = 0;
    float* total = s.total + seat * beam;
    int32_t* history = s.history + seat * beam * s.room;
    static thread_local std::vector<int32_t> histories;
    histories.resize(beam * age);
    for (int64_t row = 0; row < beam; row++) std::copy_n(history + row * s.room, age, histories.data() + row * age);
    bool last = s.limit[seat] <= age + 1;
    for (int64_t i = 0; i < beam; i++)
        if ((best[i].token == s.end || last) && (s.greedy || best[i].value > -INFINITY))
            keep_complete(s, seat, best[i], histories.data());
    for (int ended = 0; ended < 2; ended++)  // at first those that go on; others only where these are too few
        for (int64_t i = 0; i < (int64_t)best.size() && continued < beam; i++) {
            if ((best[i].token == s.end) != (ended == 1)) continue;
            int32_t* row = history + continued * s.room;
            std::copy_n(histories.data() + best[i].place * age, age, row);
            row[age] = (int32_t)best[i].token;
            total[continued] = ended ? -INFINITY : best[i].value;
            token[continued] = best[i].token;
            parent[continued] = first_row + best[i].place;
            continued++;
        }
    age = ++s.age[seat];
    if (s.greedy) return last || best[0].token == s.end;
    return last || !(total[0] / s.divisors[seat][age] > s.score[(seat + 1) * beam - 1]);
}

// The sentences in the first `count` of the seats, whose rows of logits [count · beam, vocab] are in order, by one more
// token. Those that go on stay in `seats`, the seats of those that are done go to `done`. Returns how many go on.
static int64_t advanced(const Seats* stand, const float* logits, int64_t count, int64_t* done, int64_t threads) {
    const Seats& s = *stand;
    int64_t beam = s.beam, vocab = s.vocab, blocks = (vocab + BLOCK - 1) / BLOCK, most = s.greedy ? 1 : 2 * beam;
    parallel(count * beam, count * beam < 4 ? 1 : threads, [=, &s](int64_t row) {
        int64_t hidden = s.num_hidden + (s.age[s.seats[row / beam]] < s.shortest);
        row_leaders(logits + row * vocab, vocab, s.hidden, hidden, most, s.maxima + row * blocks, s.values + row * most,
                    s.tokens + row * most);
    });
    int64_t going = 0;
    std::vector<Candidate> best;
    for (int64_t i = 0; i < count; i++) {
        int64_t seat = s.seats[i];
        best.clear();
        for (int64_t place = 0; place < beam; place++)
            for (int64_t j = 0; j < most; j++) {
                int64_t at = (i * beam + place) * most + j;
                best.push_back({s.values[at] + s.total[seat * beam + place], place, s.tokens[at]});
            }
        std::partial_sort(best.begin(), best.begin() + most, best.end());
        best.resize(most);
        if (extended(s, seat, best, i * beam, s.token + going * beam, s.parent + going * beam)) {
            *done++ = seat;
        } else {
            s.seats[going++] = seat;
        }
    }
    return going;
}

extern "C" {

int64_t advance_seats(const Seats* stand, const float* logits, int64_t count, int64_t threads) {
    return advanced(stand, logits, count, stand->done, threads);
}

// Sentences in free seats, after the first `count`, before their first token.
void take_seats(
    const Seats* stand, int64_t count, const int64_t* seats, const int64_t* limits, const int64_t* tokens,
    const int64_t* divisors, int64_t sentences
) {
    const Seats& s = *stand;
    for (int64_t i = 0; i < sentences; i++) {
        int64_t seat = s.seats[count + i] = seats[i], row = seat * s.beam;
        s.age[seat] = 0, s.limit[seat] = limits[i];
        ((const float**)s.divisors)[seat] = (const float*)divisors[i];
        for (int64_t place = 0; place < s.beam; place++) {
            s.total[row + place] = s.score[row + place] = s.complete_total[row + place] = -INFINITY;
            s.token[(count + i) * s.beam + place] = tokens[i];
        }
        s.total[row] = 0;  // all rows of a sentence are alike at first: only one of them is extended
    }
}

// Up to so many steps of a model, whose logits have room for all rows, while sentences go on; all that they need if the
// number is negative. Returns how many sentences go on, or an outcome; writes how many steps were made. `interrupted` is
// null, or asked before every step.
int64_t fly(
    const Seats* stand, const Model* model, float* logits, int64_t count, int64_t most, int64_t (*interrupted)(),
    int64_t threads, int64_t* steps
) {
    int64_t going = count;
    for (*steps = 0; going && *steps != most; ++*steps) {
        if (interrupted && interrupted()) return INTERRUPTED;
        if (!model->step(model->run, stand->token, logits)) return OUTSIDE;
        int64_t left = advanced(stand, logits, going, stand->done + count - going, threads);
        if (left < going || stand->beam > 1) model->select(model->run, stand->parent, left * stand->beam);
        going = left;
    }
    return going;
}
}
