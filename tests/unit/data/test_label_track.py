"""Label tracks of four programs, the labels of frames, and errors by file and line."""

import codecs
from pathlib import Path

import numpy as np
import pytest

from foveate.data.label_track import LabelTrack, Segment, read_labels, read_track
from foveate.errors import DataError
from foveate.inspect.time_file import TimedLabel, ctm

LONG = """File type = "ooTextFile"
Object class = "TextGrid"

xmin = 0
xmax = 0.8
tiers? <exists>
size = 3
item []:
    item [1]:
        class = "IntervalTier"
        name = "words"
        xmin = 0
        xmax = 0.8
        intervals: size = 1
        intervals [1]:
            xmin = 0
            xmax = 0.8
            text = "say ""ah"" 5 !"
    item [2]:
        class = "TextTier"
        name = "clicks"
        xmin = 0
        xmax = 0.8
        points: size = 1
        points [1]:
            number = 0.1
            mark = "click"
    item [3]:
        class = "IntervalTier"
        name = "phones"
        xmin = 0
        xmax = 0.8
        intervals: size = 3
        intervals [1]:
            xmin = 0
            xmax = 0.25
            text = "s"
        intervals [2]:
            xmin = 0.25
            xmax = 0.5
            text = ""
        intervals [3]:
            xmin = 0.5
            xmax = 0.8
            text = "ɑː"
"""
SHORT = """File type = "ooTextFile"
Object class = "TextGrid"

0
0.8
<exists>
1
"IntervalTier"
"phones"
0
0.8
3
0
0.25
"s"
0.25
0.5
""
0.5
0.8
"ɑː"
"""
PHONES = [(0.0, 0.25, "s"), (0.5, 0.8, "ɑː")]


def plain(track: LabelTrack) -> list[tuple[float, float, str]]:
    return [(round(one.start, 7), round(one.end, 7), one.label) for one in track.segments]


def written(folder: Path, name: str, text: str, encoding: str = "utf-8") -> Path:
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "0\t0.25\ts\n\\\t120.5\t4000\n0.5\t0.8\tɑː\n"),
        ("a.tsv", "0.000000\t0.250000\ts\r\n0.25\t0.5\t\r\n0.500000\t0.800000\tɑː"),
        ("a.ctm", ";; said\nb 1 0 1 z\na 1 0 0.25 s 0.9\na 1 0.5 0.3 ɑː\n"),
        ("a.lab", "0 2500000 s -3.5 word\n\n5000000 8000000 ɑː\n"),
    ],
)
def test_lines_of_each_program_are_the_same_segments(name: str, text: str, tmp_path: Path) -> None:
    assert plain(read_track(written(tmp_path, name, text), recording="a")) == PHONES


def test_a_recording_whose_name_has_blanks_has_its_lines_of_a_ctm(tmp_path: Path) -> None:
    labels = [TimedLabel(label, start, end) for start, end, label in PHONES]
    path = written(tmp_path, "a.ctm", ctm("other.wav", labels) + ctm("my clip.wav", labels))
    assert plain(read_track(path, recording="my clip.wav")) == PHONES


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("text", [LONG, SHORT, SHORT.replace('"ooTextFile"', '"ooTextFile short"')])
def test_a_text_grid_is_read_in_each_form_and_encoding(text: str, encoding: str, tmp_path: Path) -> None:
    content = text.encode(encoding)
    (tmp_path / "a.TextGrid").write_bytes(codecs.BOM_UTF16_BE + content if encoding == "utf-16-be" else content)
    assert plain(read_track(tmp_path / "a.TextGrid", tier="phones")) == PHONES
    assert plain(read_track(tmp_path / "a.TextGrid", tier="3" if text == LONG else None)) == PHONES


def test_a_doubled_quote_in_a_text_grid_is_one_quote(tmp_path: Path) -> None:
    track = read_track(written(tmp_path, "a.textgrid", LONG), tier="words")
    assert (track.names, track.segments[0].line) == (('say "ah" 5 !',), 18)


@pytest.mark.parametrize(
    ("tier", "message"),
    [
        (None, "has 2 tiers of intervals among the tiers 'words', 'clicks', 'phones'. Name one as track.tier."),
        ("phone", "has no tier 'phone', only 'words', 'clicks', 'phones'. Did you mean 'phones'?"),
        ("4", "has no tier '4', only"),
        ("clicks", "the tier 'clicks' has points, which last for no time. Choose one of intervals."),
    ],
)
def test_a_tier_that_cannot_be_read_is_refused(tier: str | None, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message.replace("?", r"\?")):
        read_track(written(tmp_path, "a.TextGrid", LONG), tier=tier)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.txt",
            "0\t1\ta\n0,5\t2\tb\n",
            "a.txt:2: '0,5' is not a time in seconds. Write a point before the decimals.",
        ),
        ("a.txt", "0\tinf\ta\n", "a.txt:1: 'inf' is not a time in seconds."),
        ("a.txt", "0 1 a\n", "a.txt:1: '0 1 a' is not a segment. Write start, tab, end, tab, label."),
        (
            "a.txt",
            "0\t1\ta\n\n0.5\t2\tb\n",
            "a.txt:3: 'b' from 0.500 to 2.000 s overlaps with 'a' of line 1, which ends",
        ),
        ("a.txt", "1\t2\ta\n0\t1\tb\n", "a.txt:2: 'b' from 0.000 to 1.000 s begins before the segment of line 1"),
        ("a.txt", "1\t1\ta\n", "a.txt:1: 'a' from 1.000 to 1.000 s has no duration. Give it one"),
        ("a.txt", "-1\t1\ta\n", "a.txt:1: 'a' from -1.000 to 1.000 s begins before the recording."),
        ("a.ctm", "a 1 0 0.25\n", "a.ctm:1: the line has 4 columns. Write recording, channel, start, duration, label"),
        ("a.ctm", "x/a 1 0 1 s\ny/a 1 0 1 s\n", "a.ctm:2: 'y/a' and 'x/a' are both named 'a'. Write a file for each."),
        ("a.ctm", "b 1 0 0.25 x\n", "a.ctm has no line of 'a', only of 'b'."),
        ("a.lab", "0 0.5 s\n", "a.lab:1: '0 0.5 s' is not a segment. Write start, end and label, with whole numbers"),
        ("a.wav", "", "a.wav does not end with .txt, .tsv, .ctm, .lab, .TextGrid."),
        ("a.TextGrid", "hello", "a.TextGrid ends after line 1, in the middle of a tier."),
        ("a.TextGrid", SHORT.replace('"s"', "17"), "a.TextGrid:15: '17' stands where a text is needed."),
        ("a.TextGrid", SHORT.rpartition("0.8")[0], "a.TextGrid ends after line 19, in the middle of a tier."),
        ("a.TextGrid", SHORT.replace("TextGrid", "Pitch"), "a.TextGrid is not a TextGrid but 'ooTextFile', 'Pitch'."),
        ("a.TextGrid", SHORT.replace("IntervalTier", "X"), "a.TextGrid:8: 'X' is not a class of tiers."),
        ("a.TextGrid", "ooBinaryFile", "a.TextGrid is a binary TextGrid. Save it as text in Praat."),
        ("a.TextGrid", SHORT.replace("\n3\n", "\n2.5\n"), "a.TextGrid:12: 2.5 stands where a number of tiers"),
    ],
)
def test_a_damaged_track_is_refused_with_its_line(name: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        read_track(written(tmp_path, name, text), recording="a")
    assert message in str(error.value)


def test_a_tier_is_refused_where_a_file_has_none_and_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a.txt has no tiers, only a .TextGrid has. Leave the tier 'phones' out."):
        read_track(written(tmp_path, "a.txt", "0\t1\ta\n"), tier="phones")
    with pytest.raises(DataError, match=r"none.lab"):
        read_track(tmp_path / "none.lab")
    (tmp_path / "latin.TextGrid").write_bytes(b'"ooTextFile" "\xe9"')
    with pytest.raises(DataError, match="neither UTF-8 nor UTF-16"):
        read_track(tmp_path / "latin.TextGrid")


def test_a_frame_has_the_label_at_its_centre_and_a_gap_that_of_nothing() -> None:
    track = LabelTrack("a", (Segment(0.1, 0.3, "a"), Segment(0.3, 0.55, "b")))
    times = 0.05 + 0.1 * np.arange(8)
    assert track.labels(times, nothing="-") == ["-", "a", "a", "b", "b", "-", "-", "-"]
    assert track.labels(np.array([0.1, 0.1 + 0.2, 0.55]), nothing="-") == ["a", "b", "-"]
    assert LabelTrack("a", ()).labels(times[:2], nothing="") == ["", ""]


def test_rounded_times_may_overlap_a_little_and_the_later_segment_wins() -> None:
    track = LabelTrack("a", (Segment(0.0, 0.23, "a"), Segment(0.22, 0.5, "b")))
    assert track.labels(np.array([0.215, 0.225]), nothing="-") == ["a", "b"]


def test_a_segment_beyond_the_recording_is_refused_and_one_frame_more_is_not() -> None:
    track = LabelTrack("a.txt", (Segment(0.0, 1.0, "a", 1), Segment(1.0, 2.04, "b", 2)))
    assert track.require_within(2.0, "a.wav") is track
    with pytest.raises(DataError, match=r"a.txt:2: 'b' ends at 2.040 s, and a.wav lasts 1.500 s. Check that the track"):
        track.require_within(1.5, "a.wav")


def test_labels_of_vectors_are_one_a_line(tmp_path: Path) -> None:
    assert read_labels(written(tmp_path, "a.txt", "a\nb b \n\n\n")) == ("a", "b b")
    with pytest.raises(DataError, match=r"b.txt:2: the line is empty. Write a label for each vector."):
        read_labels(written(tmp_path, "b.txt", "a\n\nb\n"))
