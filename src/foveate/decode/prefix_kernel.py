"""The prefix search of many frames in one call of a C++ kernel."""

import ctypes

import numpy as np
from jaxtyping import Float

from foveate import native
from foveate.decode.prefix import IMPOSSIBLE, NOWHERE, Beam, Path, Prefix, linked


def advanced_by_kernel(
    beam: Beam, rows: Float[np.ndarray, "frames vocab"], read: int, *, size: int, insertion: float
) -> Beam | None:
    """The beam after these frames, as `advanced` computes it without a language model; None without a compiler."""
    kernels = native.load("foveate.decode", "prefix_search.cpp")
    if kernels.library is None:
        return None
    room = max(len(prefix.tokens) for prefix in beam.prefixes) + len(rows)
    sums, lengths = np.zeros((size, 5)), np.zeros(size, np.int64)
    tokens = np.zeros((size, room), np.int64)
    spans, values = np.zeros((size, 2, room, 3), np.int32), np.zeros((size, 2, room))
    greedy = np.array([beam.greedy, beam.label], np.int64)
    for place, prefix in enumerate(beam.prefixes):
        paths, length = (prefix.blank_path, prefix.token_path), len(prefix.tokens)
        sums[place] = prefix.blank, prefix.token, *(path.score for path in paths), prefix.bonus
        lengths[place], tokens[place, :length] = length, prefix.tokens
        for kind, path in enumerate(paths):
            link = path.link
            for token in range(length - 1, -1, -1):
                if link is not None:
                    spans[place, kind, token], values[place, kind, token] = link.frames, link.value
                    link = link.before
    count = kernels.library.search(
        _address(rows),
        *map(ctypes.c_int64, (*rows.shape, read, len(beam.prefixes), size)),
        ctypes.c_double(insertion),
        ctypes.c_int64(room),
        *(_address(array) for array in (sums, lengths, tokens, spans, values, greedy)),
    )
    prefixes = []
    for place in range(count):
        blank, token, *scores, bonus = sums[place].tolist()
        length = int(lengths[place])
        ends = [_path(score, spans[place, kind, :length], values[place, kind]) for kind, score in enumerate(scores)]
        own = tuple(tokens[place, :length].tolist())
        prefixes.append(Prefix(own, blank, token, ends[0], ends[1], bonus))
    return Beam(tuple(prefixes), int(greedy[0]), int(greedy[1]))


def _path(score: float, spans: np.ndarray, values: np.ndarray) -> Path:
    if score == IMPOSSIBLE:
        return NOWHERE
    return Path(score, linked(spans.tolist(), values[: len(spans)].tolist()))


def _address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
