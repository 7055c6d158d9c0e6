"""Alignments, figures, rollout and comparisons of traces."""

import base64
import math
import re
import zlib
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from foveate.attention import Attention, causal, record, window
from foveate.errors import UsageError
from foveate.inspect import Trace, Track, alignment, compare, figure, rollout
from foveate.inspect.figure.letter import width
from foveate.inspect.figure.scale import HIDDEN, INKS, Scale, hexadecimal, ramp
from foveate.inspect.trace import given
from foveate.inspect.view import _zoomed


@pytest.fixture
def long() -> Trace:
    attention = Attention(visibility=causal())
    with record(attention) as recording:
        attention.run(x := torch.randn(1, 2, 700, 8), x, x)
    return Trace.of(recording)


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
    result = compare(trace, site=0, other_site="layers.2", head=0, other_head=1)
    assert np.allclose(result.rows, (a - b).abs().sum(1) / 2)
    assert result.largest == pytest.approx(float((a - b)[result.at].abs()))
    with pytest.raises(UsageError, match="Compare texts with the same pieces"):
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


def test_a_png_has_the_letters_of_its_labels() -> None:
    def drawn(*pieces: str) -> bytes:
        trace = Trace(tracks={"source": Track.of_pieces(pieces)}, sites=(given(torch.eye(3)[None]),))
        return figure(trace, kind="png")

    assert len({drawn(*pieces) for pieces in (["▁été", "do", "▁it"], ["0", "1", "2"], ["▁سلام", "do", "▁it"])}) == 3


def cells(drawing: bytes) -> dict[str, str]:
    """The colour of each cell of a drawing by its words, and of the ground for those without."""
    return {
        says: colour for colour, says in re.findall(r'fill="(#\w{6})"><title>(.*?)</title></rect>', drawing.decode())
    }


def shades(scale: Scale, lifts: Sequence[float]) -> list[str]:
    """What the scale makes of numbers, from its definition."""
    assert scale == "lift"
    return [hexadecimal(ramp("light", "balance")[round(100 * (0.5 + math.log2(lift) / 12))]) for lift in lifts]


def test_lift_counts_the_visible_keys_of_each_row() -> None:
    visible = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1]]).bool()
    weights = visible / visible.sum(1, keepdim=True)
    weights[1] = torch.tensor([0.75, 0.25, 0, 0])
    trace = Trace(tracks={"source": Track.numbered(4)}, sites=(given(weights[None], visible[None]),))
    result = cells(figure(trace, scale="lift"))
    assert [result["1 → 0: 0.750"], result["1 → 1: 0.250"]] == shades("lift", [1.5, 0.5])
    alike = {colour for says, colour in result.items() if not says.startswith("1 ")}
    assert alike == set(shades("lift", [1]))


def test_lift_by_words_compares_with_the_words_share_of_the_visible_keys() -> None:
    visible = torch.tensor([[1, 1, 1, 0]]).bool()
    trace = Trace(
        tracks={"source": Track.of_pieces(["▁a", "b", "▁c", "▁d"]), "target": Track.of_pieces(["▁x"])},
        sites=(
            given(torch.tensor([[[0.25, 0.25, 0.5, 0]]]), visible[None], kind="cross", tracks=("target", "source")),
        ),
    )
    result = cells(figure(trace, scale="lift", level="word"))
    assert [result["x → ab: 0.500"], result["x → c: 0.500"]] == shades("lift", [0.75, 1.5])
    assert len(result) == 2
    by_hand = alignment(trace).words()
    assert np.allclose(by_hand.lift(), [[0.75, 1.5, 0]])


@pytest.mark.parametrize("pool", ["peak", "mass"])
def test_lift_of_a_zoomed_map_is_one_where_a_window_looks_everywhere_alike(pool: str) -> None:
    """A window of nine keys in a map of 1,100: the share is a ninth and not a part of 1,100."""
    attention = Attention(visibility=window(left=8, right=0))
    with record(attention) as recording:
        attention.run(torch.zeros(1, 1, 1100, 4), torch.zeros(1, 1, 1100, 4), torch.zeros(1, 1, 1100, 4))
    map_ = _zoomed(Trace.of(recording), 0, [0], 2, pool, lifted=True)  # type: ignore[arg-type]
    lifts = map_.lift()
    inside = lifts[10:, 9:][np.diag_indices(200)]  # one block before the diagonal, where all keys are visible
    assert np.allclose(inside, 1, rtol=0.01)
    assert lifts[10:].max() < 1.01


def test_hidden_cells_are_hatched_and_never_painted_like_zeros() -> None:
    visible = torch.tensor([[True, True, False]])
    weights = torch.tensor([[[1.0, 0.0, 0.0]]])
    tracks = {"source": Track.numbered(3), "target": Track.numbered(1)}

    def drawing(shown: torch.Tensor | None) -> str:
        site = given(weights, None if shown is None else shown[None], kind="cross", tracks=("target", "source"))
        return figure(Trace(tracks=tracks, sites=(site,))).decode()

    assert "may not be looked at" in drawing(visible)
    assert "may not be looked at" not in drawing(None)
    assert INKS["light"].hatch in drawing(visible)
    assert INKS["light"].hatch not in drawing(None)


def test_hidden_cells_of_a_large_map_stay_clear(long: Trace) -> None:
    packed = re.search(r"base64,([^\"]+)", figure(long).decode())
    assert packed is not None
    picture = base64.b64decode(packed[1])
    lines = zlib.decompress(picture.partition(b"IDAT")[2][:-16])
    levels = np.frombuffer(lines, dtype=np.uint8).reshape(350, 351)[:, 1:]
    assert np.array_equal(levels == HIDDEN, ~np.tril(np.ones((350, 350), dtype=bool)))
    assert b"tRNS" in picture


@pytest.mark.parametrize("level", [0, 1, "word"])
def test_a_weight_that_is_not_a_number_is_drawn_as_one(level: int | str) -> None:
    weights, visible = torch.eye(4)[None].clone(), torch.tril(torch.ones(4, 4)).bool()[None]
    weights[0, 2, 1] = torch.nan
    trace = Trace(tracks={"source": Track.of_pieces(["▁a", "▁b", "▁c", "▁d"])}, sites=(given(weights, visible),))
    drawing = figure(trace, level=level, scale="lift").decode()  # type: ignore[arg-type]
    assert drawing.count(": not a number</title>") == 1
    assert ">not a number</text>" in drawing
    assert ">may not be looked at</text>" in drawing


def test_weights_above_one_are_shown_as_they_are() -> None:
    trace = Trace(tracks={"source": Track.numbered(2)}, sites=(given(torch.tensor([[[3.0, 0.0], [0.0, 1.5]]])),))
    assert {"0 → 0: 3.000", "1 → 1: 1.500"} <= cells(figure(trace)).keys()
    assert "3 largest here" in figure(trace).decode()


def test_a_mean_of_heads_hides_only_what_all_of_them_hide() -> None:
    visible = torch.tensor([[[True, False, False]], [[True, True, False]]])
    weights = torch.tensor([[[1.0, 0, 0]], [[0.5, 0.5, 0]]])
    tracks = {"source": Track.numbered(3), "target": Track.numbered(1)}
    site = given(weights, visible, kind="cross", tracks=("target", "source"))
    drawing = alignment(Trace(tracks=tracks, sites=(site,)))
    assert drawing.hidden.tolist() == [[False, False, True]]
    assert np.allclose(drawing.weights, [[0.75, 0.25, 0]])
    assert np.allclose(drawing.lift(), [[1, 1, 0]])


@pytest.mark.parametrize("scale", ["linear", "log", "lift"])
@pytest.mark.parametrize("words", [6, 60])
def test_the_words_of_the_legend_and_the_title_stand_apart_within_the_picture(scale: Any, words: int) -> None:
    trace = Trace(tracks={"source": Track.of_pieces(["▁a", "▁b"])}, sites=(given(torch.eye(2)[None]),))
    root = ElementTree.fromstring(figure(trace, scale=scale, title=" ".join(["wide"] * words)))
    wide = float(root.attrib["width"])
    ends: dict[str, float] = {}
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        if "transform" in text.attrib:
            continue
        length = width("".join(text.itertext()), bold="font-weight" in text.attrib) * float(text.get("font-size", 12))
        back = {"start": 0, "middle": 0.5, "end": 1}[text.attrib["text-anchor"]]
        begin = float(text.attrib["x"]) - back * length
        assert begin >= ends.get(text.attrib["y"], 0) - 0.1
        ends[text.attrib["y"]] = begin + length
        assert begin + length <= wide


def test_a_scale_that_does_not_exist(unchecked: None) -> None:
    with pytest.raises(UsageError, match="There is no scale 'square': choose linear, log or lift"):
        figure(stack(), scale="square")  # type: ignore[arg-type]
