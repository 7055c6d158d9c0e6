// Whether all numbers are smaller than 2^60: then they are finite, and so are their products with any such number.
#include "prelude.h"

// As an unsigned number, what a float has left without its sign grows with its size, up to infinity and NaN.
template <typename Bits>
static Bits largest(const Bits* row, int64_t count, Bits sign) {
    Bits most = 0;
    for (int64_t i = 0; i < count; i++) {
        Bits size = row[i] & (Bits)~sign;
        most = size > most ? size : most;
    }
    return most;
}

// Rows of `width` numbers, by the steps from one example, head and place to the next. `bytes` is 4 for float32 and 2 for
// bfloat16.
extern "C" int moderate(
    const void* from, int64_t bytes, int64_t batch, int64_t heads, int64_t places, int64_t width, int64_t to_example,
    int64_t to_head, int64_t to_place
) {
    for (int64_t b = 0; b < batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t p = 0; p < places; p++) {
                int64_t at = b * to_example + h * to_head + p * to_place;
                if (bytes == 4 ? largest((const uint32_t*)from + at, width, 0x80000000u) >= 0x5d800000u
                               : largest((const uint16_t*)from + at, width, (uint16_t)0x8000) >= 0x5d80)
                    return 0;
            }
    return 1;
}
