// From logits to the few best tokens of every row with their log-probabilities, in one reading of each row from memory.
#define VECTORS_OF_THIS_PROCESSOR
#include "prelude.h"
#include "leader.h"
#include <algorithm>
#include <vector>

// The hypotheses of sentences that are decoded side by side, each sentence in a seat of its own. The structure is that of
// `seat.py`.
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

extern "C" {

// The sentences in these seats, whose rows of logits [count · beam, vocab] are in order, by one more token. Those that go on
// stay in `seats`, and so do their newest tokens and the rows that they continue in `token` and `parent`; those that are done
// come to `done`. Returns how many go on. `maxima` has room for every block of every row, `values` and `tokens` for the
// 2 · beam best of every row.
int64_t advance(
    const Seats* stand, const float* logits, int64_t count, int64_t* seats, int64_t* token, int64_t* parent, int64_t* done,
    float* maxima, float* values, int64_t* tokens, int64_t threads
) {
    const Seats& s = *stand;
    int64_t beam = s.beam, vocab = s.vocab, blocks = (vocab + BLOCK - 1) / BLOCK, most = s.greedy ? 1 : 2 * beam;
    parallel(count * beam, count * beam < 4 ? 1 : threads, [=, &s](int64_t row) {
        int64_t hidden = s.num_hidden + (s.age[seats[row / beam]] < s.shortest);
        row_leaders(logits + row * vocab, vocab, s.hidden, hidden, most, maxima + row * blocks, values + row * most,
                    tokens + row * most);
    });
    int64_t going = 0;
    std::vector<Candidate> best;
    for (int64_t i = 0; i < count; i++) {
        int64_t seat = seats[i];
        best.clear();
        for (int64_t place = 0; place < beam; place++)
            for (int64_t j = 0; j < most; j++) {
                int64_t at = (i * beam + place) * most + j;
                best.push_back({values[at] + s.total[seat * beam + place], place, tokens[at]});
            }
        std::partial_sort(best.begin(), best.begin() + most, best.end());
        best.resize(most);
        if (extended(s, seat, best, i * beam, token + going * beam, parent + going * beam)) {
            *done++ = seat;
        } else {
            seats[going++] = seat;
        }
    }
    return going;
}

// values and tokens [rows, count]: the largest log softmax(logits) [rows, vocab] but for the hidden tokens, −∞ where there
// are no more. `maxima` has room for every block of every row.
void leaders(
    const float* logits, int64_t rows, int64_t vocab, const int64_t* hidden, int64_t num_hidden, int64_t count,
    float* maxima, float* values, int64_t* tokens, int64_t threads
) {
    int64_t blocks = (vocab + BLOCK - 1) / BLOCK;
    parallel(rows, rows < 4 ? 1 : threads, [=](int64_t row) {
        row_leaders(logits + row * vocab, vocab, hidden, num_hidden, count, maxima + row * blocks, values + row * count,
                    tokens + row * count);
    });
}
}
