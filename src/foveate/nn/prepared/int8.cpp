#include "prelude.h"
#include "product.h"
#include "int8.h"
// One product in int8 by itself, for layers outside of a decoder's step.

extern "C" {

int64_t panel_width() { return PANEL; }

// to [rows, outputs] = W x + b. `room` is that of `multiply_int8`.
void product(const Product* product, const float* x, int64_t rows, float* to, uint16_t* room, int64_t threads) {
    multiply_int8(*product, x, rows, to, false, NONE, threads, room);
}
}
