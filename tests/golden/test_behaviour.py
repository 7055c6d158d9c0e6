"""Heads that are made to do one thing are called by it, and all who measure heads agree: Python's two providers here,
and the viewer by the numbers of `measures.json` (viewer/test). FOVEATE_RENEW=1 makes these anew.
"""

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from foveate.inspect.tile import DenseProvider, TraceProvider
from foveate.inspect.tile.head_measure import BEHAVIOURS, MEASURES, OffsetSums, behaviour, is_delimiter
from foveate.inspect.trace import Trace, Track, given, read_trace, write_trace

FOLDER = Path(__file__).parent / "trace"
SENTENCE = ["▁the", "▁cat", ",", "▁which", "▁slept", "▁in", "▁a", "▁ho", "use", "▁saw", "▁one", "▁dog", "."]
PIECES = ["<s>", *SENTENCE, *SENTENCE, "</s>"]
TRACES = ("causal", "cross", "frames", "molecule", "nodes", "patches", "heads")
CAUSAL = [name for name in BEHAVIOURS if name not in ("next", "near")]
"""Nothing comes after a query, and half of the weight on itself has the name of that."""


def targets(name: str, labels: list[str], generator: torch.Generator) -> Tensor:
    """Where a head looks: a row of weights for each query, of sum 1, or 0 where there is nothing of this kind."""
    n = len(labels)
    i, j = torch.arange(n)[:, None], torch.arange(n)[None]
    alike = torch.tensor([[a == b for b in labels] for a in labels])
    after = torch.nn.functional.pad(alike, (1, 0))[:, :-1]
    marks = torch.tensor([is_delimiter(label) for label in labels])
    chosen = {
        "previous": j == i - 1,
        "itself": j == i,
        "next": j == i + 1,
        "first": (j == 0).expand(n, n),
        "delimiter": marks.expand(n, n),
        "same": alike & (i != j),
        "induction": after & (j - 1 < i),
        "near": (j - i).abs() < 2,
        "position": (j - i).abs().eq(3) | (j - i).abs().eq(2),
        "content": torch.rand(n, n, generator=generator) < 2 / n,
        "flat": torch.ones(n, n, dtype=torch.bool),
    }[name].float()
    return chosen / chosen.sum(1, keepdim=True).clamp(min=1)


def head(name: str, share: float, seed: int, *, causal: bool = False) -> Tensor:
    """Weights that give `share` to what the head looks at, and the rest to random keys."""
    generator = torch.Generator().manual_seed(seed)
    n = len(PIECES)
    visible = torch.ones(n, n).tril() if causal else torch.ones(n, n)
    looked = targets(name, PIECES, generator) * visible
    rest = torch.rand(n, n, generator=generator) * visible
    looked, rest = (part / part.sum(1, keepdim=True).clamp(min=1e-9) for part in (looked, rest))
    weights = share * looked + (1 - share) * rest
    return weights / weights.sum(1, keepdim=True)


def trace_of(heads: Tensor, *, causal: bool = False) -> Trace:
    visible = torch.ones_like(heads, dtype=torch.bool).tril() if causal else None
    return Trace(tracks={"source": Track.of_pieces(PIECES)}, sites=(given(heads, visible),))


def heads_trace() -> Trace:
    both = [torch.stack([head(name, 0.8, 5, causal=causal) for name in BEHAVIOURS]) for causal in (False, True)]
    sites = [given(both[0]), given(both[1], torch.ones_like(both[1], dtype=torch.bool).tril(), name="causal", layer=1)]
    return Trace(tracks={"source": Track.of_pieces(PIECES)}, sites=tuple(sites))


def measured(trace: Trace) -> list[list[dict[str, Any]]]:
    provider = TraceProvider(trace)
    return [
        [{"behaviour": each.behaviour, **each.means()} for each in provider.statistics(site)]
        for site in range(len(trace.sites))
    ]


@pytest.fixture(scope="module", autouse=True)
def renewed() -> None:
    if not os.environ.get("FOVEATE_RENEW"):
        return
    write_trace(heads_trace(), FOLDER / "heads.trace")
    told = {name: measured(read_trace(FOLDER / f"{name}.trace")) for name in TRACES}
    lines = [f'"{name}": [\n' + ",\n".join(json.dumps(site) for site in sites) + "\n]" for name, sites in told.items()]
    (FOLDER / "measures.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


@pytest.mark.parametrize("name", TRACES)
def test_stored_traces_have_the_stored_measures(name: str) -> None:
    expected = json.loads((FOLDER / "measures.json").read_text(encoding="utf-8"))[name]
    for mine, right in zip(measured(read_trace(FOLDER / f"{name}.trace")), expected, strict=True):
        for one, other in zip(mine, right, strict=True):
            assert one.pop("behaviour") == other.pop("behaviour")
            assert one == pytest.approx(other, abs=2e-6)


def test_punctuation_and_special_tokens_are_delimiters_with_the_marks_of_any_vocabulary() -> None:
    labels = [".", "▁,", "Ġ;", "</s>", "[SEP]", "。", "؟", "«", "\n", "<"]
    assert all(map(is_delimiter, labels))
    assert not any(map(is_delimiter, ["the", "▁", "", "n't", "[1]", "Ġ", "##s", "3.5"]))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("share", [0.75, 0.99])
def test_a_head_is_called_by_what_it_was_made_to_do(share: float, seed: int, causal: bool) -> None:
    names = CAUSAL if causal else BEHAVIOURS
    made = torch.stack([head(name, share, seed, causal=causal) for name in names])
    trace = trace_of(made, causal=causal)
    for provider in (TraceProvider(trace), DenseProvider(trace)):
        assert [each.behaviour for each in provider.statistics(0)] == list(names)


@pytest.mark.parametrize("name", ["previous", "itself", "next", "first", "delimiter", "same", "induction", "near"])
def test_less_than_half_of_the_weight_gives_no_name(name: Any) -> None:
    (statistics,) = TraceProvider(trace_of(head(name, 0.4, 1)[None])).statistics(0)
    assert statistics.behaviour != name


def test_random_weights_do_not_depend_on_offsets_however_short_the_text() -> None:
    """Without the adjustment, D / N of the variance would be explained: 0.44 for four tokens."""
    for length, seeds in ((4, 400), (12, 60)):
        shares = []
        for seed in range(seeds):
            weights = torch.rand(length, length, generator=torch.Generator().manual_seed(seed))
            sums = OffsetSums(torch.arange(length), torch.arange(length))
            sums.add(weights, None, torch.arange(length), torch.arange(length))
            shares.append(sums.share())
        assert sorted(shares)[seeds // 2] < 0.1


def test_positions_with_gaps_are_added_like_those_without() -> None:
    weights = torch.rand(6, 9)
    visible = torch.rand(6, 9) < 0.7
    query, key = torch.arange(4, 10), torch.arange(9)
    blocks, pairs = OffsetSums(query, key), OffsetSums(query, key)
    blocks.add(weights * visible, visible, query, key)
    for i in range(6):
        for j in torch.randperm(9).split(4):
            pairs.add((weights * visible)[[i]][:, j], visible[[i]][:, j], query[[i]], key[j])
    assert torch.allclose(blocks.total, pairs.total)
    assert torch.equal(blocks.count, pairs.count)
    assert blocks.share() == pytest.approx(pairs.share())


def test_a_measure_of_few_rows_gives_no_name() -> None:
    rows = {name: torch.full((8,), torch.nan).numpy() for name in MEASURES}
    rows["entropy"][:] = 1.0
    rows["same"][0] = 1.0
    assert behaviour(rows, 0.0) == "content"
    rows["same"][1] = 1.0
    assert behaviour(rows, 0.0) == "same"


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("provider", [TraceProvider, DenseProvider])
def test_a_row_with_a_weight_that_is_not_finite_counts_for_no_measure(provider: Any, value: float) -> None:
    weights = head("content", 0.5, 1)[None]
    expected = provider(trace_of(weights)).statistics(0)[0].rows
    weights[0, 3, 4] = value
    found = provider(trace_of(weights)).statistics(0)[0].rows
    for name in MEASURES:
        assert math.isnan(found[name][3])
        others = np.arange(len(PIECES)) != 3
        np.testing.assert_array_equal(found[name][others], expected[name][others])
