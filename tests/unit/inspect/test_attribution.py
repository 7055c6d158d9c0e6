"""Orders, their agreement, and the flow through a decoder."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies

from foveate.errors import DataError, UsageError
from foveate.inspect import Trace, Track
from foveate.inspect.attribution import faithfulness, kendall
from foveate.inspect.attribution.answer import words_of
from foveate.inspect.attribution.faithful import Mean
from foveate.inspect.flow import rollout, rollout_to_keys
from foveate.inspect.trace import given as site_of_weights

FEW = strategies.lists(strategies.tuples(strategies.integers(0, 3), strategies.integers(0, 3)), min_size=2, max_size=9)


def test_kendall_with_ties_is_the_published_number() -> None:
    """The example of SciPy's documentation of `kendalltau`."""
    assert kendall(np.array([12.0, 2, 1, 12, 2]), np.array([1.0, 4, 7, 1, 0])) == pytest.approx(-0.4714045207910317)


@given(FEW)
def test_kendall_counts_pairs(pairs: list[tuple[int, int]]) -> None:
    first, second = (np.array(side, dtype=np.float64) for side in zip(*pairs, strict=True))
    alike, ordered = 0, [0, 0]
    for i, j in combinations(range(len(pairs)), 2):
        ours, theirs = first[i] - first[j], second[i] - second[j]
        alike += int(np.sign(ours * theirs))
        ordered = [ordered[0] + (ours != 0), ordered[1] + (theirs != 0)]
    expected = alike / math.sqrt(ordered[0] * ordered[1]) if all(ordered) else math.nan
    assert kendall(first, second) == pytest.approx(expected, nan_ok=True)


def test_kendall_of_many_items_does_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = np.random.default_rng(0).integers(0, 9, (2, 40)).astype(np.float64)
    whole = kendall(first, second)
    monkeypatch.setattr("foveate.inspect.attribution.rank_correlation.BLOCK", 7)
    assert kendall(first, second) == pytest.approx(whole)
    assert math.isnan(kendall(first, np.where(first > 3, np.nan, second)))


def shares(*shape: int) -> torch.Tensor:
    return torch.rand(2, *shape).softmax(-1)


def test_rollout_through_a_decoder_is_the_product_of_its_matrices() -> None:
    inside, crossing, reading = shares(2, 3, 3), shares(2, 3, 4), shares(2, 4, 4)
    tracks = {"source": Track.numbered(4), "read": Track.numbered(3), "target": Track.numbered(3)}
    sites = [
        site_of_weights(maps[layer], name=f"{name}.{layer}", kind=kind, layer=layer, tracks=ends)
        for name, maps, kind, ends in (
            ("encoder", reading, "self", ("source", "source")),
            ("decoder.self", inside, "self", ("read", "read")),
            ("decoder.cross", crossing, "cross", ("target", "source")),
        )
        for layer in (0, 1)
    ]
    trace = Trace(tracks=tracks, sites=tuple(sites))
    encoded = torch.eye(4)
    for layer in (0, 1):
        encoded = (0.5 * torch.eye(4) + 0.5 * reading[layer].mean(0)) @ encoded
    of_source, of_read = torch.zeros(3, 4), torch.eye(3)
    for layer in (0, 1):
        own = 0.5 * torch.eye(3) + 0.5 * inside[layer].mean(0)
        of_source, of_read = own @ of_source, own @ of_read
        of_source, of_read = 0.5 * of_source + 0.5 * crossing[layer].mean(0) @ encoded, 0.5 * of_read
    np.testing.assert_allclose(rollout_to_keys(trace, 5, [0, 2]), of_source[[0, 2]], atol=1e-6)
    np.testing.assert_allclose((of_source.sum(1) + of_read.sum(1)).numpy(), 1.0, atol=1e-6)  # nothing is lost
    np.testing.assert_allclose(rollout_to_keys(trace, 0, [2])[0], rollout(trace, 2, track="source"), atol=1e-7)


def test_pieces_are_words_between_what_is_outside() -> None:
    words, places = words_of(["[CLS]", "un", "##seen", "cat", "[SEP]"], outside=[0, 4])
    assert (words, places.tolist()) == (("unseen", "cat"), [-1, 0, 0, 1, -1])
    assert words_of([])[0] == ()


def test_a_mean_has_its_standard_error() -> None:
    assert str(Mean.of([0.25, 0.75])) == "0.500 ± 0.250"
    assert str(Mean.of([0.25])) == "0.250"
    with pytest.raises(DataError, match="no sentences"):
        faithfulness([])


def test_a_trace_whose_layers_do_not_match_is_refused() -> None:
    tracks = {"source": Track.numbered(4), "read": Track.numbered(3), "target": Track.numbered(3)}
    sites = (
        site_of_weights(shares(3, 3), name="decoder.0", kind="self", tracks=("read", "read")),
        site_of_weights(shares(3, 3), name="decoder.1", kind="self", layer=1, tracks=("read", "read")),
        site_of_weights(shares(3, 4), name="across.0", kind="cross", tracks=("target", "source")),
    )
    with pytest.raises(UsageError, match="2 and 1"):
        rollout_to_keys(Trace(tracks=tracks, sites=sites), 2, [0])
