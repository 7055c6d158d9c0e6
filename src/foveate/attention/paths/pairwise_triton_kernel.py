"""Triton kernels of additive attention. Import this file only where triton is installed: `pairwise_triton` does.

tanh(a + b) = 1 − 2r with r = 1 / (1 + e^{2a} e^{2b}), so a softmax over Σ_h v_h tanh(a_ih + b_jh) is one over
−2 Σ_h v_h r_ijh. Features come as exponentials for heads that are `near` (|a|, |b| ≤ FAR), where two denominators can
be multiplied and share one reciprocal, and as they are for all others. They are padded, so that no load of them needs
a mask: hidden units to an even number, rows to whole tiles. LEAKY: with a leaky ReLU of slope `leak` for tanh, as GATv2
has it; no head is near then. PLAIN: for the interpreter, which knows no machine code.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

ANY = ["queries", "keys", "first", "last", "left", "right", "count", "others", "seen_strides", "bias_strides"]
ANY += ["slope_stride", "grad_stride"]
"""Arguments that vary between batches: kernels are not compiled anew where one of these is 1 or a multiple of 16."""


@triton.jit
def reciprocal(x, PLAIN: tl.constexpr):
    """1 / x with one instruction of the special-function unit, to about one unit in the last place."""
    if PLAIN:
        return 1.0 / x
    return tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def see(mask, query_at, key_at, strides, left, right, head, heads, rows, columns, queries, keys, MASKED, SPANNED):
    """The visible pairs of a tile."""
    batch, own = head // heads, head % heads
    visible = (rows < queries)[:, None] & (columns < keys)[None, :]
    if SPANNED:
        i = tl.load(query_at + batch * strides[4] + own * strides[5] + rows, mask=rows < queries, other=0)
        j = tl.load(key_at + batch * strides[6] + own * strides[7] + columns, mask=columns < keys, other=0)
        distance = i[:, None] - j[None, :]
        visible = visible & (distance <= left) & (-distance <= right)
    if MASKED:
        start = mask + batch * strides[0] + own * strides[1]
        place = rows[:, None].to(tl.int64) * strides[2] + columns[None, :] * strides[3]
        visible = visible & (tl.load(start + place, mask=visible, other=0) != 0)
    return visible


@triton.jit
def score(
    query, key, vector, bias, strides, near, leak, head, heads, first_row, first_column, visible,
    HIDDEN, LEAKY: tl.constexpr, BIASED, PLAIN,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, MY_ROWS: tl.constexpr, MY_COLUMNS: tl.constexpr,
):  # fmt: skip
    """−2 Σ_h v_h r_ijh (LEAKY: Σ_h v_h f_ijh) + bias_ij of a tile; −∞ where it is hidden. Features are one row a unit.

    A tile is cut along four axes so that the compiler, which deals the last ones out to threads, leaves MY_ROWS ×
    MY_COLUMNS pairs with each thread, and a thread loads MY_ROWS + MY_COLUMNS numbers a unit and not nearly ROWS.
    """
    OTHER_ROWS: tl.constexpr = ROWS // MY_ROWS
    OTHER_COLUMNS: tl.constexpr = COLUMNS // MY_COLUMNS
    i = tl.arange(0, MY_ROWS)[:, None, None, None] * OTHER_ROWS + tl.arange(0, OTHER_ROWS)[None, None, :, None]
    j = tl.arange(0, MY_COLUMNS)[None, :, None, None] * OTHER_COLUMNS + tl.arange(0, OTHER_COLUMNS)[None, None, None, :]
    a, b, padded_queries, padded_keys = query[0] + first_row + i, key[0] + first_column + j, query[1], key[1]
    total = tl.zeros([MY_ROWS, MY_COLUMNS, OTHER_ROWS, OTHER_COLUMNS], tl.float32)
    if LEAKY:
        for h in range(HIDDEN):
            both = tl.load(a) + tl.load(b)
            total += tl.load(vector + h) * tl.where(both < 0.0, leak * both, both)
            a += padded_queries
            b += padded_keys
    elif near:
        for h in range(0, HIDDEN, 2):
            v0, v1 = tl.load(vector + h), tl.load(vector + h + 1)
            d0 = tl.load(a) * tl.load(b) + 1.0
            d1 = tl.load(a + padded_queries) * tl.load(b + padded_keys) + 1.0
            total += (v0 * d1 + v1 * d0) * reciprocal(d0 * d1, PLAIN)
            a += 2 * padded_queries
            b += 2 * padded_keys
    else:
        for h in range(HIDDEN):
            both = tl.load(a) + tl.load(b)
            total += tl.load(vector + h) / (1.0 + tl.exp(2.0 * both))
            a += padded_queries
            b += padded_keys
    scores = (1.0 if LEAKY else -2.0) * tl.reshape(tl.permute(total, (0, 2, 1, 3)), [ROWS, COLUMNS])
    if BIASED:
        rows, columns = first_row + tl.arange(0, ROWS), first_column + tl.arange(0, COLUMNS)
        start = bias + (head // heads) * strides[0] + (head % heads) * strides[1]
        place = rows[:, None].to(tl.int64) * strides[2] + columns[None, :] * strides[3]
        scores += tl.load(start + place, mask=visible, other=0.0).to(tl.float32)
    return tl.where(visible, scores, -float("inf"))


@triton.jit(do_not_specialize=ANY)
def attend(
    query, key, vector, value, near, mask, query_at, key_at, bias, context, statistic,
    padded_queries, padded_keys, seen_strides, bias_strides, left, right, heads, vector_stride, leak, queries, keys,
    width,
    HIDDEN: tl.constexpr, LEAKY: tl.constexpr, MASKED: tl.constexpr, SPANNED: tl.constexpr, BIASED: tl.constexpr,
    PLAIN: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, MY_ROWS: tl.constexpr, MY_COLUMNS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Context and log-sum-exp of some queries of one head, over all keys, tile by tile."""
    tiles = tl.cdiv(queries, ROWS)
    head, tile = (tl.program_id(0) // tiles).to(tl.int64), tl.program_id(0) % tiles
    rows, wide = tile * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    own_query = query + head * HIDDEN * padded_queries, padded_queries
    own_key = key + head * HIDDEN * padded_keys, padded_keys
    own_vector, is_near = vector + (head % heads) * vector_stride, tl.load(near + head) != 0
    largest = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, WIDTH], tl.float32)
    for start in range(0, keys, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        visible = see(
            mask, query_at, key_at, seen_strides, left, right, head, heads, rows, columns, queries, keys, MASKED,
            SPANNED,
        )  # fmt: skip
        if tl.max(tl.max(visible.to(tl.int32), 1), 0) > 0:
            scores = score(
                own_query, own_key, own_vector, bias, bias_strides, is_near, leak, head, heads, tile * ROWS, start,
                visible, HIDDEN, LEAKY, BIASED, PLAIN, ROWS, COLUMNS, MY_ROWS, MY_COLUMNS,
            )  # fmt: skip
            higher = tl.maximum(largest, tl.max(scores, 1))
            shift = tl.where(higher == -float("inf"), 0.0, higher)
            weights = tl.exp(scores - shift[:, None])
            fade = tl.exp(largest - shift)
            place = (head * keys + columns)[:, None] * width + wide[None, :]
            values = tl.load(value + place, mask=(columns < keys)[:, None] & (wide < width)[None, :], other=0.0)
            total = total * fade + tl.sum(weights, 1)
            rounded = weights.to(values.dtype)
            if PLAIN:  # the interpreter multiplies no bfloat16
                rounded, values = rounded.to(tl.float32), values.to(tl.float32)
            mixed = tl.dot(rounded, values, mixed * fade[:, None], input_precision="tf32x3")
            largest = higher
    empty = total == 0.0
    divisor = tl.where(empty, 1.0, total)
    tl.store(statistic + head * queries + rows, tl.where(empty, 0.0, largest + tl.log(divisor)), mask=rows < queries)
    place = (head * queries + rows)[:, None] * width + wide[None, :]
    inside = (rows < queries)[:, None] & (wide < width)[None, :]
    tl.store(context + place, (mixed / divisor[:, None]).to(context.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=ANY)
def weigh(
    query, key, vector, near, mask, query_at, key_at, bias, statistic, inner, weights, grad,
    padded_queries, padded_keys, seen_strides, bias_strides, left, right, heads, vector_stride, leak, queries, keys,
    first, last,
    HIDDEN: tl.constexpr, LEAKY: tl.constexpr, MASKED: tl.constexpr, SPANNED: tl.constexpr, BIASED: tl.constexpr,
    PLAIN: tl.constexpr,
    SCORES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, MY_ROWS: tl.constexpr,
    MY_COLUMNS: tl.constexpr,
):  # fmt: skip
    """A tile of queries `first` to `last`: scores (SCORES), or weights, and the `grad` of these made that of scores."""
    down, across = tl.cdiv(last - first, ROWS), tl.cdiv(keys, COLUMNS)
    head, tile = (tl.program_id(0) // (down * across)).to(tl.int64), tl.program_id(0) % (down * across)
    rows = first + (tile // across) * ROWS + tl.arange(0, ROWS)
    columns = (tile % across) * COLUMNS + tl.arange(0, COLUMNS)
    visible = see(
        mask, query_at, key_at, seen_strides, left, right, head, heads, rows, columns, last, keys, MASKED, SPANNED
    )
    place = (head * (last - first) + rows - first)[:, None] * keys + columns[None, :]
    inside = (rows < last)[:, None] & (columns < keys)[None, :]
    alive = tl.max(tl.max(visible.to(tl.int32), 1), 0) > 0
    scores = tl.full([ROWS, COLUMNS], -float("inf"), tl.float32)
    if alive:
        scores = score(
            (query + head * HIDDEN * padded_queries, padded_queries), (key + head * HIDDEN * padded_keys, padded_keys),
            vector + (head % heads) * vector_stride, bias, bias_strides, tl.load(near + head) != 0, leak, head, heads,
            first + (tile // across) * ROWS, (tile % across) * COLUMNS, visible, HIDDEN, LEAKY, BIASED, PLAIN,
            ROWS, COLUMNS, MY_ROWS, MY_COLUMNS,
        )  # fmt: skip
    if SCORES:
        tl.store(weights + place, scores, mask=inside)
    else:
        there = head * queries + rows
        shift = tl.load(statistic + there, mask=rows < last, other=0.0)
        mean = tl.load(inner + there, mask=rows < last, other=0.0)
        mine = tl.where(visible, tl.exp(scores - shift[:, None]), 0.0)
        slope = tl.load(grad + place, mask=inside, other=0.0).to(tl.float32)
        tl.store(weights + place, mine.to(weights.dtype.element_ty), mask=inside)
        tl.store(grad + place, tl.where(visible, mine * (slope - mean[:, None]), 0.0), mask=inside)


@triton.jit(do_not_specialize=ANY)
def differentiate(
    mine, other, near, grad, slopes, values,
    my_stride, other_stride, slope_stride, grad_stride, grad_row, grad_column, leak, count, others,
    HIDDEN: tl.constexpr, LEAKY: tl.constexpr, VALUES: tl.constexpr, PLAIN: tl.constexpr, ROWS: tl.constexpr,
    UNITS: tl.constexpr,
):  # fmt: skip
    """slopes_ih += Σ_j g_ij r_ijh (1 − r_ijh), and values_h of a tile = Σ_ij g_ij r_ijh; rows are queries or keys.

    LEAKY: slopes_ih += Σ_j g_ij f'_ijh, and values_h = Σ_ij g_ij f_ijh.
    """
    parts, tiles = tl.cdiv(HIDDEN, UNITS), tl.cdiv(count, ROWS)
    head, task = (tl.program_id(0) // (parts * tiles)).to(tl.int64), tl.program_id(0) % (parts * tiles)
    tile = task // parts
    rows, units = tile * ROWS + tl.arange(0, ROWS), (task % parts) * UNITS + tl.arange(0, UNITS)
    is_row, is_unit = rows < count, units < HIDDEN
    inside = is_row[:, None] & is_unit[None, :]
    a = tl.load(mine + head * my_stride + rows[:, None] * HIDDEN + units[None, :], mask=inside, other=0.0)
    b = other + head * other_stride + units
    g = grad + head * grad_stride + rows.to(tl.int64) * grad_row
    value, square = tl.zeros([ROWS, UNITS], tl.float32), tl.zeros([ROWS, UNITS], tl.float32)
    if LEAKY:
        for _ in range(others):
            both = a + tl.load(b, mask=is_unit, other=0.0)[None, :]
            incoming = tl.load(g, mask=is_row, other=0.0)[:, None]
            t = incoming * tl.where(both > 0.0, 1.0, leak)
            value += tl.where(incoming == 0.0, 0.0, t * both)  # a hidden pair may hold NaN
            square += t
            b += HIDDEN
            g += grad_column
    elif tl.load(near + head) != 0:
        for j in range(0, others, 2):
            d0 = a * tl.load(b, mask=is_unit, other=0.0)[None, :] + 1.0
            d1 = a * tl.load(b + HIDDEN, mask=is_unit, other=0.0)[None, :] + 1.0
            both = reciprocal(d0 * d1, PLAIN)
            r0, r1 = d1 * both, d0 * both
            t0 = tl.load(g, mask=is_row, other=0.0)[:, None] * r0
            t1 = tl.load(g + grad_column, mask=is_row & (j + 1 < others), other=0.0)[:, None] * r1
            value += t0
            value += t1
            square += t0 * r0
            square += t1 * r1
            b += 2 * HIDDEN
            g += 2 * grad_column
    else:
        for _ in range(others):
            r = 1.0 / (1.0 + tl.exp(2.0 * (a + tl.load(b, mask=is_unit, other=0.0)[None, :])))
            incoming = tl.load(g, mask=is_row, other=0.0)[:, None]
            t = tl.where(incoming == 0.0, 0.0, incoming * r)  # a hidden pair may hold NaN
            value += t
            square += tl.where(incoming == 0.0, 0.0, t * r)
            b += HIDDEN
            g += grad_column
    place = slopes + head * slope_stride + rows[:, None] * HIDDEN + units[None, :]
    gradient = square if LEAKY else value - square
    tl.store(place, tl.load(place, mask=inside, other=0.0) + gradient, mask=inside)
    if VALUES:
        tl.store(values + (head * tiles + tile) * HIDDEN + units, tl.sum(value, 0), mask=is_unit)
