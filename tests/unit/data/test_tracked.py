"""Examples with a label for each vector, from tables of files."""

from pathlib import Path

import numpy as np
import pytest

from foveate.data.feature import VectorReader
from foveate.data.label import Labels
from foveate.data.label_track import LabelTrack, Segment
from foveate.data.labelled_store import prepare_rows
from foveate.data.tracked import Clock, TrackConfig, Tracked, read_tracked
from foveate.errors import DataError

READER = VectorReader()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two sequences of vectors with lists of labels, and with label tracks at 10 ms."""
    (tmp_path / "labels").mkdir()
    for name, labels in (("a", "aab"), ("b", "ba")):
        np.save(tmp_path / f"{name}.npy", np.arange(2.0 * len(labels)).reshape(-1, 2))
        (tmp_path / "labels" / f"{name}.txt").write_text("\n".join(labels))
    (tmp_path / "a.lab").write_text("0 100000 a\n200000 300000 b\n")
    (tmp_path / "b.ctm").write_text("a 1 0 1 x\nb 1 0.01 0.01 b\n")
    (tmp_path / "track.tsv").write_text("a.npy\ta.lab\nb.npy\tb.ctm\n")
    (tmp_path / "list.tsv").write_text("a.npy\tlabels/a.txt\nb.npy\tlabels/b.txt\n")
    return tmp_path


def test_a_file_has_a_label_for_each_vector_or_segments_in_seconds(table: Path) -> None:
    def labels(name: str, config: TrackConfig) -> list[list[str]]:
        path = str(table / name)
        rows = READER.learn(READER.read(path))
        return [
            list(one.labels(len(rows.row(one.thing)), Clock.of(rows, config), config.unlabelled))
            for one in read_tracked(READER, path, config)
        ]

    assert labels("list.tsv", TrackConfig()) == [["a", "a", "b"], ["b", "a"]]
    assert labels("track.tsv", TrackConfig(hop=0.01, nothing="_")) == [["a", "_", "b"], ["_", "b"]]


def test_labels_are_stored_one_for_each_vector(table: Path, tmp_path: Path) -> None:
    path = str(table / "list.tsv")
    rows, labels = READER.learn(READER.read(path)), Labels(["a", "b"])
    data, report = prepare_rows(
        tmp_path / "store",
        read_tracked(READER, path, TrackConfig()),
        rows,
        labels,
        what="vectors",
        max_length=9,
        names=lambda example, row: example.labels(len(row), None, "-"),
    )
    assert str(report) == "All 2 vectors are used."
    batch = data.require_rows(labels, rows.input, each=True).rows([1, 0])
    assert (batch.labels.tolist(), batch.rows.lengths.tolist()) == ([1, 0, 0, 0, 1], [2, 3])
    with pytest.raises(DataError, match="does not have a label for each input"):
        data.require_rows(labels, rows.input)


def test_a_clip_has_the_labels_of_its_part_of_the_recording() -> None:
    class Clip:
        start, end = 1.0, 1.03

    track = LabelTrack("a.txt", (Segment(0.9, 1.01, "a"), Segment(1.01, 2.0, "b")))
    example, clock = Tracked(1, Clip(), "a.txt", track), Clock(first=0.005, hop=0.01)
    assert list(example.labels(3, clock, "-")) == ["a", "b", "b"]


def test_labels_and_vectors_of_different_number_are_refused(table: Path) -> None:
    (table / "labels" / "b.txt").write_text("b\na\na\n")
    _, example = read_tracked(READER, str(table / "list.tsv"), TrackConfig())
    with pytest.raises(DataError, match=r"b.npy has 2 vectors, and .*b.txt has 3 labels. Write one a line"):
        example.labels(2, None, "-")


def test_a_label_file_that_is_missing_is_refused_with_the_line_of_the_table(table: Path) -> None:
    (table / "bad.tsv").write_text("a.npy\ta.lab\na.npy\tc.lab\n")
    with pytest.raises(DataError, match=r"bad.tsv:2: .*c.lab is missing. A line is the path of a recording, a tab,"):
        list(read_tracked(READER, str(table / "bad.tsv"), TrackConfig(hop=0.01)))


def test_one_label_an_example_is_not_enough(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has one label an example, and tagging needs one for each vector"):
        list(read_tracked(READER, str(tmp_path / "data.npz"), TrackConfig()))


def test_seconds_without_a_clock_are_refused() -> None:
    example = Tracked(1, "a.npy", "a.lab", LabelTrack("a.lab", ()))
    with pytest.raises(DataError, match=r"a.npy has vectors without a time, and a.lab has seconds. Set track.hop."):
        example.labels(3, None, "-")


@pytest.mark.parametrize(
    ("settings", "message"), [({"hop": 0.0}, "hop must be above 0"), ({"nothing": " "}, "nothing must be a label")]
)
def test_settings_without_sense_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrackConfig(**settings)
