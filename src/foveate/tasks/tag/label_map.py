"""The trace of a tagger of vectors: the probability of each label for each vector, beside the model's attention."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from foveate.inspect import Trace, Track
from foveate.inspect.trace import Site, given
from foveate.inspect.trace.conversion import DENSE
from foveate.inspect.view import LABELS

SEGMENTS, TRUE = "segments", "true labels"
"""The names of sites, beside `LABELS`."""


def with_labels(
    trace: Trace,
    log_probabilities: Float[Tensor, "vectors labels"],
    names: Sequence[str],
    labels: Sequence[str],
    true: Sequence[str] | None = None,
) -> Trace:
    """A trace with maps of the labels, whose keys are its track `source`: the vectors. It opens with `labels`.

    `labels` has a row for each of the `names`: p(label | vector), so that columns sum to 1. A label may be heard
    several times, so its row has no time of its own.

    `segments` has a row for each run of equal `labels`, which are those that the tagger gives, smoothed or not:
    p(its label | vector) along the run, otherwise 0. A recording of several minutes has too many of them for a map.

    `true labels` has the rows of `labels`, with a 1 for the true label of each vector. Labels that the tagger has not
    learnt come last, with probability 0.
    """
    rows = (*names, *dict.fromkeys(one for one in true or () if one not in names))
    shares = torch.zeros(len(rows), len(log_probabilities))
    shares[: len(names)] = log_probabilities.exp().T
    tracks, sites = {**trace.tracks, LABELS: Track(labels=rows)}, [_site(shares, LABELS)]
    spans = runs(labels)
    if 0 < len(spans) * len(labels) <= DENSE:
        heard = [labels[begin] for begin, _ in spans]
        tracks[SEGMENTS] = Track(labels=tuple(heard), words=tuple((row, row + 1) for row in range(len(heard))))
        pieces = torch.zeros(len(spans), len(labels))
        for row, (begin, end) in enumerate(spans):
            pieces[row, begin:end] = shares[rows.index(heard[row]), begin:end]
        sites.append(_site(pieces, SEGMENTS, "p(label | vector), within its run"))
    if true is not None:
        right = np.array(rows)[:, None] == np.array(true)[None, :]
        sites.append(_site(torch.from_numpy(right).float(), TRUE, "1 for the true label", rows=LABELS))
    return replace(trace, tracks=tracks, sites=(*trace.sites, *sites), opens=(LABELS, 0))


def runs(labels: Sequence[str]) -> list[tuple[int, int]]:
    """The half-open ranges of equal labels.

    >>> runs("aab")
    [(0, 2), (2, 3)]
    """
    ends = np.cumsum([0, *(len(list(run)) for _, run in groupby(labels))]).tolist()
    return list(pairwise(ends))


def _site(weights: Tensor, name: str, formula: str = "p(label | vector)", *, rows: str | None = None) -> Site:
    tracks = (rows or name, "source")
    return given(weights[None], name=name, kind="cross", tracks=tracks, formula=formula, posterior=True)
