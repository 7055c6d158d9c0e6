"""Alignments, figures, rollout and comparisons of traces."""

import numpy as np
import pytest
import torch

from foveate.attention import Attention, causal, record
from foveate.errors import UsageError
from foveate.inspect import Trace, Track, alignment, compare, figure, rollout
from foveate.inspect.trace import given


@pytest.fixture
def long() -> Trace:
    attention = Attention(visibility=causal())
    with record(attention) as seen:
        attention.run(x := torch.randn(1, 2, 700, 8), x, x)
    return Trace.of(seen)


def stack(depth: int = 3, heads: int = 2, length: int = 6) -> Trace:
    maps = torch.rand(depth, heads, length, length).softmax(-1)
    sites = tuple(given(each, name=f"layers.{layer}", layer=layer) for layer, each in enumerate(maps))
    return Trace(tracks={"source": Track.numbered(length)}, sites=sites)


def test_rollout_is_the_product_of_matrices() -> None:
    trace = stack()
    product = np.eye(6)
    for site in trace.sites:
        product = (0.5 * np.eye(6) + 0.5 * site.tensors["scores"].mean(0).numpy()) @ product
    for query in range(6):
        assert np.allclose(rollout(trace, query), product[query], atol=1e-6)
    with pytest.raises(UsageError, match="There is no query 6"):
        rollout(trace, 6)


def test_rollout_of_a_trace_without_self_attention_is_refused() -> None:
    tracks = {"source": Track.numbered(3), "target": Track.numbered(2)}
    cross = Trace(tracks=tracks, sites=(given(torch.rand(1, 2, 3), kind="cross", tracks=("target", "source")),))
    with pytest.raises(UsageError, match="Rollout follows self-attention"):
        rollout(cross)


def test_a_head_compared_with_itself_and_with_another() -> None:
    trace = stack()
    assert compare(trace).mean == compare(trace).largest == 0
    a, b = trace.sites[0].tensors["scores"][0], trace.sites[2].tensors["scores"][1]
    seen = compare(trace, site=0, other_site="layers.2", head=0, other_head=1)
    assert np.allclose(seen.rows, (a - b).abs().sum(1) / 2)
    assert seen.largest == pytest.approx(float((a - b)[seen.at].abs()))
    with pytest.raises(UsageError, match="Compare texts that are cut"):
        compare(trace, stack(length=5))


def test_an_alignment_is_the_mean_of_the_heads_of_the_layer_before_the_last() -> None:
    tracks = {"source": Track.of_pieces(["▁a", "▁b", "c"]), "target": Track.of_pieces(["▁x", "▁y"])}
    maps = torch.rand(3, 2, 2, 3)
    sites = tuple(
        given(each, name=f"{i}", layer=i, kind="cross", tracks=("target", "source")) for i, each in enumerate(maps)
    )
    trace = Trace(tracks=tracks, sites=sites)
    assert np.allclose(alignment(trace).weights, maps[1].mean(0))
    assert np.allclose(alignment(trace, site="2", head=1).weights, maps[2, 1])
    assert alignment(trace).words().source == ("a", "bc")
    with pytest.raises(UsageError, match="has no head 2"):
        alignment(trace, head=2)


@pytest.mark.parametrize("scale", ["linear", "log", "lift"])
def test_a_figure_is_the_same_bytes_every_time(long: Trace, scale: str) -> None:
    png = figure(long, kind="png", scale=scale)  # type: ignore[arg-type]
    svg = figure(long, kind="svg", scale=scale)  # type: ignore[arg-type]
    assert png == figure(long, kind="png", scale=scale)  # type: ignore[arg-type]
    assert svg == figure(long, kind="svg", scale=scale)  # type: ignore[arg-type]
    assert png.startswith(b"\x89PNG")
    assert b"level 1, peak" in svg


def test_a_figure_of_words_has_the_words_as_labels() -> None:
    trace = Trace(tracks={"source": Track.of_pieces(["▁س", "لام", "▁b"])}, sites=(given(torch.rand(1, 3, 3)),))
    assert "سلام" in figure(trace, level="word").decode()
    assert figure(trace, kind="png", level="word").startswith(b"\x89PNG")


def test_a_png_writes_the_mark_of_a_word_s_beginning_as_a_line() -> None:
    def drawn(*pieces: str) -> bytes:
        trace = Trace(tracks={"source": Track.of_pieces(pieces)}, sites=(given(torch.eye(3)[None]),))
        return figure(trace, kind="png")

    assert drawn("▁un", "do", "▁it") == drawn("_un", "do", "_it") != drawn("▁été", "do", "▁it")
    assert drawn("▁été", "do", "▁it") == drawn("0", "1", "2")


def test_a_scale_that_does_not_exist(unchecked: None) -> None:
    with pytest.raises(UsageError, match="There is no scale 'square': choose linear, log or lift"):
        figure(stack(), scale="square")  # type: ignore[arg-type]
