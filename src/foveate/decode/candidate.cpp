// From logits to the few best tokens of every row with their log-probabilities, in one reading of each row from memory.
#include "prelude.h"
#include "leader.h"

extern "C" {

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
