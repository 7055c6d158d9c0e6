"""The figure of a time alignment: boxes at their times, whole letters, and the spectrogram above them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from foveate.errors import UsageError
from foveate.inspect import Picture, Sound, TimeAlignment, Trace, Track, spectrogram, time_svg, times, write_times
from foveate.inspect.figure.picture_file import TIMES
from foveate.inspect.time_file import TimedLabel
from foveate.inspect.trace import given
from foveate.inspect.view import hears

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def spoken() -> TimeAlignment:
    frames = [(2, 8), (10, 14), (14, 19)]
    return TimeAlignment.of_frames(["▁one", "▁se", "ven"], frames, hop=0.1, name="a.wav", seconds=2.0)


@pytest.fixture
def heard() -> dict[str, Any]:
    energies = torch.arange(60.0).reshape(20, 3)
    return {"sound": Sound.of(np.sin(np.arange(800) / 9), seconds=2.0), "picture": spectrogram(energies)}


def boxes(drawing: str) -> dict[str, tuple[float, float, float]]:
    """The left, top and width of each label's box."""
    root = ElementTree.fromstring(drawing)
    titled = [(rect, rect.find(f"{SVG}title")) for rect in root.iter(f"{SVG}rect")]
    return {
        str(title.text): (float(rect.attrib["x"]), float(rect.attrib["y"]), float(rect.attrib["width"]))
        for rect, title in titled
        if title is not None
    }


def test_boxes_lie_at_their_times(spoken: TimeAlignment, heard: dict[str, Any]) -> None:
    drawing = time_svg(spoken, **heard)
    placed = boxes(drawing)
    one, seven = placed["one: 0.20–0.80 s"], placed["seven: 1.00–1.90 s"]
    assert seven[2] / one[2] == pytest.approx(0.9 / 0.6, rel=1e-2)
    assert (seven[0] - one[0]) / one[2] == pytest.approx(0.8 / 0.6, rel=1e-2)
    image = next(ElementTree.fromstring(drawing).iter(f"{SVG}image"))
    second = one[2] / 0.6
    assert float(image.attrib["x"]) == pytest.approx(one[0] - 0.2 * second, abs=0.3)
    assert float(image.attrib["width"]) == pytest.approx(2.0 * second, rel=1e-2)
    assert float(image.attrib["y"]) + float(image.attrib["height"]) <= one[1]
    texts = [element.text for element in ElementTree.fromstring(drawing).iter(f"{SVG}text")]
    assert {"one", "seven", "se", "ven", "0.20–0.80", "words", "letters", "a.wav"} <= set(texts)


def test_labels_that_overlap_have_lines_of_their_own() -> None:
    labels = (TimedLabel("a", 0.0, 0.5), TimedLabel("b", 0.3, 0.9), TimedLabel("c", 0.5, 1.0))
    placed = boxes(time_svg(TimeAlignment(name="x", seconds=1.0, tiers={"words": labels})))
    tops = [placed[name][1] for name in ("a: 0.00–0.50 s", "b: 0.30–0.90 s", "c: 0.50–1.00 s")]
    assert tops[0] == tops[2] < tops[1]


def words_below(labels: Sequence[TimedLabel]) -> dict[str, float]:
    """The heights of labels that are written in full."""
    drawing = time_svg(TimeAlignment(name="x", seconds=2.0, tiers={"words": tuple(labels)}))
    names = {each.label for each in labels}
    texts = ElementTree.fromstring(drawing).iter(f"{SVG}text")
    return {text.text or "": float(text.attrib["y"]) for text in texts if text.text in names}


def test_long_labels_stand_below_their_boxes_without_overlap() -> None:
    two = [TimedLabel("extraordinarily", 0.1, 0.2), TimedLabel("everywhere", 0.3, 0.4), TimedLabel("far-off", 1.5, 1.6)]
    heights = words_below(two)
    assert heights["extraordinarily"] == heights["far-off"] < heights["everywhere"]


def test_labels_that_need_too_many_rows_are_shortened_and_whole_in_their_tooltips() -> None:
    labels = [TimedLabel(f"extraordinarily-{at}", at / 10, (at + 1) / 10) for at in range(10)]
    assert not words_below(labels)
    drawing = time_svg(TimeAlignment(name="x", seconds=2.0, tiers={"words": tuple(labels)}))
    assert {f"{each.label}: {each.start:.2f}–{each.end:.2f} s" for each in labels} <= boxes(drawing).keys()


def test_markup_in_a_label_stays_text() -> None:
    drawing = time_svg(TimeAlignment(name="<b>", seconds=1.0, tiers={"words": (TimedLabel("<i>&", 0.0, 0.9),)}))
    texts = [element.text for element in ElementTree.fromstring(drawing).iter(f"{SVG}text")]
    assert {"<b>", "<i>&"} <= set(texts)


@pytest.mark.parametrize("theme", ["light", "dark", "auto"])
def test_every_theme_is_a_whole_picture(spoken: TimeAlignment, heard: dict[str, Any], theme: Any) -> None:
    assert time_svg(spoken, theme=theme, **heard) == time_svg(spoken, theme=theme, **heard)
    assert len(boxes(time_svg(spoken, theme=theme, **heard))) == 4


def test_a_picture_from_elsewhere_and_an_alignment_of_nothing_are_refused(spoken: TimeAlignment) -> None:
    with pytest.raises(UsageError, match="has colours or was made elsewhere"):
        time_svg(spoken, picture=Picture.of(torch.rand(3, 4, 5)))
    with pytest.raises(UsageError, match="nothing was recognised"):
        time_svg(TimeAlignment(name="a", seconds=1.0, tiers={"words": ()}))


def test_the_levels_of_a_grey_picture_are_those_that_it_was_made_of() -> None:
    levels = np.arange(60, dtype=np.uint8).reshape(5, 12)
    grey = Picture.of(levels).grey
    assert grey is not None
    np.testing.assert_array_equal(grey, levels)
    assert Picture.of(np.zeros((2, 2, 3))).grey is None
    jpeg = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffc0000b080007000901011100ffd9")
    assert Picture(jpeg).grey is None


@pytest.mark.parametrize("ending", TIMES)
def test_times_are_written_in_the_format_of_the_name(
    spoken: TimeAlignment, heard: dict[str, Any], tmp_path: Path, ending: str
) -> None:
    content = write_times(spoken, tmp_path / f"a{ending}", **heard).read_bytes()
    begin = {".TextGrid": b"File type", ".ctm": b"a.wav 1 0.200", ".json": b"{", ".svg": b"<svg", ".pdf": b"%PDF-1.4"}
    assert content.startswith({**begin, ".png": b"\x89PNG", ".txt": b"      0 s"}[ending])
    assert write_times(spoken, tmp_path / f"b{ending}", **heard).read_bytes() == content


def test_another_ending_lists_the_formats(spoken: TimeAlignment, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"not written as '\.wav'\. Choose \.TextGrid"):
        write_times(spoken, tmp_path / "a.wav")


def test_the_times_of_a_trace_are_the_stretches_of_its_weights() -> None:
    weights = torch.zeros(2, 4, 10)
    for letter, (first, last) in enumerate([(1, 3), (3, 4), (5, 5), (7, 9)]):
        weights[:, letter, first : last + 1] = 1 / (last + 1 - first)
    text = Track(labels=("a", "b", " ", "c"), words=((0, 2), (2, 4)))
    frames = Track.of_frames(10, hop=0.1)
    site = given(weights, kind="cross", tracks=("target", "source"))
    trace = Trace(tracks={"source": frames, "target": text}, sites=(site, given(torch.full((1, 10, 10), 0.1))))
    found_times = times(trace, name="x.wav")
    assert [(each.label, each.start, each.end) for each in found_times.tier("letters")] == [
        ("a", 0.1, pytest.approx(0.4)),
        ("b", pytest.approx(0.3), 0.5),
        ("c", pytest.approx(0.7), 1.0),
    ]
    assert [each.label for each in found_times.tier("words")] == ["ab", "c"]
    assert (hears(trace), hears(trace, 1)) == (True, False)
    with pytest.raises(UsageError, match="its keys are frames, its queries frames"):
        times(trace, site=1)
