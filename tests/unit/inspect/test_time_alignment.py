"""Time alignments: words and letters in seconds, the files that hold them, and their picture in a terminal."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.data.label_track import read_track
from foveate.errors import UsageError
from foveate.inspect import TimeAlignment, strip
from foveate.inspect.time_alignment import stretch
from foveate.inspect.time_file import TimedLabel, ctm, text_grid

PIECES = ["▁say", "▁hel", "lo", "▁", "</s>"]
FRAMES = [(1, 4), (5, 7), (7, 9), (9, 10), (10, 12)]


@pytest.fixture
def spoken() -> TimeAlignment:
    return TimeAlignment.of_frames(
        PIECES, FRAMES, hop=0.04, name="a clip.wav", seconds=0.5, scores=[0.9, 0.8, 0.2, 0.5, 0.5]
    )


def test_pieces_become_words_from_the_first_frame_to_the_last(spoken: TimeAlignment) -> None:
    times = {tier: [(each.label, each.start, each.end) for each in labels] for tier, labels in spoken.tiers.items()}
    assert times["letters"] == [
        ("say", 0.04, 0.16),
        ("hel", 0.2, pytest.approx(0.28)),
        ("lo", pytest.approx(0.28), 0.36),
    ]
    assert times["words"] == [("say", 0.04, 0.16), ("hello", 0.2, 0.36)]
    assert spoken.tiers["words"][1].score == pytest.approx(math.sqrt(0.8 * 0.2))


def test_words_of_letters_may_be_given_and_whole_words_have_one_tier() -> None:
    letters = TimeAlignment.of_frames(
        "onetwo", [(at, at + 1) for at in range(6)], hop=0.1, name="a", seconds=0.6, words=[(0, 3), (3, 6)]
    )
    assert [each.label for each in letters.tier("words")] == ["one", "two"]
    assert [each.label for each in letters.tier("letters")] == list("onetwo")
    words = TimeAlignment.of_frames(["one", "two"], [(0, 1), (1, 2)], hop=0.1, name="a", seconds=0.2)
    assert list(words.tiers) == ["words"]


def test_the_last_frame_ends_with_the_recording_and_the_first_may_begin_before_it() -> None:
    alignment = TimeAlignment.of_frames(["a", "b"], [(0, 1), (1, 3)], hop=0.1, begin=-0.05, name="a", seconds=0.22)
    assert [(each.start, each.end) for each in alignment.tier("words")] == [
        (0.0, 0.05),
        (0.05, pytest.approx(0.22)),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hop": 0.2}, r"stands on frames 1 to 3, which are 0.200 to 0.800 seconds, but the recording has 0.500"),
        ({"scores": [0.5]}, "5 labels have 5 ranges of frames and 1 scores"),
        ({"frames": FRAMES[:2]}, "5 labels have 2 ranges"),
        ({"scores": [1.5] * 5}, "a confidence lies between 0 and 1"),
        ({"begin": -1.0}, "must begin at 0 or later"),
    ],
)
def test_times_that_cannot_be_are_refused(change: dict[str, Any], message: str) -> None:
    settings = {"labels": PIECES, "frames": FRAMES, "hop": 0.04, "name": "a", "seconds": 0.5} | change
    with pytest.raises(UsageError, match=message):
        TimeAlignment.of_frames(**settings)


def test_labels_in_another_order_or_after_the_end_are_refused() -> None:
    late, early = TimedLabel("b", 0.5, 0.6), TimedLabel("a", 0.1, 0.2)
    with pytest.raises(UsageError, match="not in the order of their starts"):
        TimeAlignment(name="a", seconds=1.0, tiers={"words": (late, early)})
    with pytest.raises(UsageError, match=r"ends at 0.600 seconds, but the recording at 0.550"):
        TimeAlignment(name="a", seconds=0.55, tiers={"words": (late,)})
    with pytest.raises(UsageError, match=r"has no tier 'phones'. It has: words"):
        TimeAlignment(name="a", seconds=1.0, tiers={"words": (late,)}).ctm("phones")


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_text_grid_is_the_stored_one(spoken: TimeAlignment) -> None:
    # praat-textgrids 1.4 reads the tiers and intervals of the stored file as they are here, on 23 November 2026.
    stored = Path(__file__).parents[2] / "golden" / "spoken.TextGrid"
    assert spoken.text_grid() == stored.read_text(encoding="utf-8")


def test_our_own_reader_reads_the_text_grid_and_the_ctm(spoken: TimeAlignment, tmp_path: Path) -> None:
    (tmp_path / "a.TextGrid").write_text(spoken.text_grid(), encoding="utf-8")
    (tmp_path / "a.ctm").write_text(spoken.ctm("letters"), encoding="utf-8")
    for track in (read_track(tmp_path / "a.TextGrid", tier="letters"), read_track(tmp_path / "a.ctm")):
        segments = [each for each in track.segments if each.label]
        assert [each.label for each in segments] == [each.label for each in spoken.tier("letters")]
        for mine, theirs in zip(spoken.tier("letters"), segments, strict=True):
            assert (theirs.start, theirs.end) == (pytest.approx(mine.start), pytest.approx(mine.end))


def test_quotation_marks_within_a_label_are_kept(tmp_path: Path) -> None:
    (tmp_path / "a.TextGrid").write_text(text_grid("a", 1.0, {"words": [TimedLabel('"6" x', 0.5, 1.0)]}), "utf-8")
    assert [each.label for each in read_track(tmp_path / "a.TextGrid").segments if each.label] == ['"6" x']


def test_a_line_of_ctm_has_the_columns_of_nist(spoken: TimeAlignment) -> None:
    rows = [line.split(" ") for line in spoken.ctm().splitlines()]
    assert rows == [
        ["a_clip.wav", "1", "0.040", "0.120", "say", "0.9000"],
        ["a_clip.wav", "1", "0.200", "0.160", "hello", "0.4000"],
    ]
    assert ctm("a", [TimedLabel("b c", 0.0004, 0.0016)]) == "a 1 0.000 0.002 b_c\n"


def test_json_contains_all_tiers(spoken: TimeAlignment) -> None:
    read = json.loads(spoken.json())
    assert (read["format"], read["version"], read["name"], read["seconds"]) == (
        "foveate-time-alignment",
        1,
        "a clip.wav",
        0.5,
    )
    assert read["tiers"]["letters"][2] == {"label": "lo", "start": 0.28, "end": 0.36, "score": 0.2}
    assert [each["label"] for each in read["tiers"]["words"]] == ["say", "hello"]


def test_a_text_grid_refuses_labels_that_overlap() -> None:
    labels = [TimedLabel("a", 0.0, 0.3), TimedLabel("b", 0.2, 0.5)]
    with pytest.raises(UsageError, match=r"'a' lasts until 0.300 seconds, but 'b' begins at 0.200"):
        text_grid("clip", 1.0, {"words": labels})
    assert ctm("clip", labels).splitlines() == ["clip 1 0.000 0.300 a", "clip 1 0.200 0.300 b"]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40), st.text('ab"é ', min_size=1, max_size=4)), max_size=8),
    st.integers(1, 50),
)
def test_the_intervals_of_a_tier_cover_the_recording_and_keep_every_label(
    parts: list[tuple[int, int, str]], rest: int
) -> None:
    at, labels = 0, []
    for gap, length, text in parts:
        labels.append(TimedLabel(text, (at + gap) / 100, (at + gap + length) / 100))
        at += gap + length
    seconds = (at + rest) / 100
    lines = [
        line.strip() for line in text_grid("a", seconds, {"words": labels}).split("intervals: size")[1].splitlines()
    ]
    starts = [float(line.removeprefix("xmin = ")) for line in lines if line.startswith("xmin")]
    ends = [float(line.removeprefix("xmax = ")) for line in lines if line.startswith("xmax")]
    assert (starts[0], starts[1:], ends[-1]) == (0.0, ends[:-1], seconds)
    texts = [line for line in lines if line.startswith("text = ") and line != 'text = ""']
    assert len(texts) == len(labels)


# -- stretches of weights ----------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=30), st.sampled_from([0.5, 0.8, 1.0]))
def test_a_stretch_is_the_shortest_range_with_its_share(row: list[float], share: float) -> None:
    weights = np.array(row)
    found_range = stretch(weights, share)
    if not weights.sum():
        assert found_range is None
        return
    assert found_range is not None
    begin, end = found_range
    need = share * weights.sum() * (1 - 1e-5)
    assert weights[begin:end].sum() >= need
    shorter = end - begin - 1
    tighter = share * weights.sum() * (1 + 1e-5)
    assert all(weights[at : at + shorter].sum() < tighter for at in range(len(row) - shorter + 1))


def test_rows_without_weights_and_rows_that_are_not_numbers_have_no_stretch() -> None:
    assert stretch(np.zeros(4)) is None
    assert stretch(np.array([0.5, np.nan])) is None


def test_attention_gives_times_too() -> None:
    weights = np.array([[0.1, 0.8, 0.1, 0.0], [0.0, 0.0, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0]])
    alignment = TimeAlignment.of_weights(["a", "b", "c"], weights, hop=0.1, name="a", seconds=0.4)
    assert [(each.label, each.start, each.end) for each in alignment.tier("words")] == [
        ("a", 0.1, 0.2),
        ("b", 0.2, 0.4),
    ]


# -- the terminal ------------------------------------------------------------------------------------------------------


def test_a_strip_has_a_line_for_each_word_within_its_width(spoken: TimeAlignment) -> None:
    for width in (50, 80, 132):
        lines = strip(spoken, width=width).splitlines()
        assert len(lines) == 3
        assert max(map(len, lines)) <= width
        assert lines[2].endswith("0.20–0.36")
    assert str(spoken) == strip(spoken)


def test_a_bar_fills_the_columns_of_its_time() -> None:
    alignment = TimeAlignment.of_frames(["a", "b"], [(0, 5), (5, 10)], hop=0.1, name="a", seconds=1.0)
    first, second = strip(alignment, width=2 + 20 + 1 + 9).splitlines()[1:]
    assert first == "a " + "█" * 10 + " " * 10 + " 0.00–0.50"
    assert second == "b " + " " * 10 + "█" * 10 + " 0.50–1.00"


def test_a_short_word_is_not_lost() -> None:
    alignment = TimeAlignment(name="a", seconds=10.0, tiers={"words": (TimedLabel("a", 5.0, 5.01),)})
    assert any(shade in strip(alignment) for shade in "░▒▓█")


def test_long_recordings_have_several_panels() -> None:
    labels = tuple(TimedLabel(f"w{at}", 2.0 * at, 2.0 * at + 1) for at in range(12))
    panels = strip(TimeAlignment(name="a", seconds=24.0, tiers={"words": labels})).split("\n\n")
    assert [len(panel.splitlines()) - 1 for panel in panels] == [5, 5, 2]


def test_a_strip_of_nothing_is_refused() -> None:
    nothing = TimeAlignment(name="a", seconds=1.0, tiers={"words": ()})
    with pytest.raises(UsageError, match="nothing was recognised"):
        strip(nothing)
    assert str(nothing) == "<TimeAlignment of a: nothing>"
