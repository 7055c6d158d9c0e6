"""Labelled rows on disk: vectors with places, graphs with edges, and what is said when they do not fit."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from foveate.data.audio import AudioReader
from foveate.data.audio_file import Recording
from foveate.data.augmentation import AugmentationConfig
from foveate.data.feature import VectorReader
from foveate.data.image import ImageRows
from foveate.data.label import Labels
from foveate.data.labelled_store import LabelledData, prepare_rows
from foveate.data.reader import Example
from foveate.data.row import Row
from foveate.data.store import TokenStore
from foveate.errors import DataError
from foveate.nn.embed import Patches, Vectors

LABELS = Labels(["a", "b"])
EDGES = [np.array([[0, 1], [1, 2]]), np.empty((2, 0), np.int64)]


@dataclass(frozen=True)
class Nodes:
    """Nodes of a graph are vectors that stand nowhere."""

    width: int
    axes = 0

    def build(self, dim: int, *, deviation: float | None = None) -> nn.Module:
        return Vectors(self.width).build(dim)


class GraphRows:
    """Rows of graphs that are there already."""

    input = Nodes(2)

    def row(self, thing: Row) -> Row:
        return thing

    def unknown(self, row: Row) -> int:
        return 0

    def track(self, thing: Row) -> dict[str, object]:
        return {"labels": tuple(map(str, range(len(thing)))), "kind": "nodes"}

    def things(self, path: str) -> Iterator[Row]:
        return iter(())

    def save(self, folder: Path) -> None:
        """There is nothing to keep."""

    def digests(self) -> dict[str, str]:
        return {}


def graphs(folder: Path) -> LabelledData:
    nodes = [np.arange(6, dtype=np.float32).reshape(3, 2), np.ones((1, 2), np.float32)]
    examples = [
        Example(line, Row(values, places=np.empty((len(values), 0), np.int64), edges=edges), label)
        for line, (values, edges, label) in enumerate(zip(nodes, EDGES, "ab", strict=True), start=1)
    ]
    data, report = prepare_rows(folder, examples, GraphRows(), LABELS, what="graphs", max_length=9)
    assert str(report) == "All 2 graphs are used."
    return data


def test_graphs_keep_their_edges(tmp_path: Path) -> None:
    data = graphs(tmp_path / "data").require_rows(LABELS, Nodes(2))
    batch = data.rows([1, 0])
    assert (batch.labels.tolist(), batch.examples) == ([1, 0], (1, 0))
    assert batch.rows.edges is not None
    assert batch.rows.edges.tolist() == [[1, 0, 1], [1, 1, 2]]
    assert batch.rows.places is not None
    assert batch.rows.places.shape == (2, 3, 0)


def test_an_edge_that_leaves_its_graph_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    graphs(folder)
    TokenStore.write(folder / "edges", [[0, 1, 1, 3], []], "")
    with pytest.raises(DataError, match=r"edges joins nodes that its rows do not have. Prepare the data again"):
        LabelledData.open(folder).require_rows(LABELS, Nodes(2))


def test_patches_keep_their_places(tmp_path: Path) -> None:
    rows = ImageRows(patch=1, colour=False, grid=(1, 2))
    places = np.array([[0, 0], [0, 1]])

    class Cut(GraphRows):
        input = rows.input  # type: ignore[assignment]

    example = Example(1, Row(np.zeros((2, 1), np.float32), places=places), "b")
    data, _ = prepare_rows(tmp_path / "data", [example], Cut(), LABELS, what="pictures", max_length=9)
    assert data.require_rows(LABELS, rows.input).rows([0]).rows.places is not None
    for other, message in (
        (Patches(size=2, channels=1, grid=(1, 2)), "has vectors of 1 numbers, but 4 are needed"),
        (Vectors(1), "does not match its places or edges"),
    ):
        with pytest.raises(DataError, match=message):
            data.require_rows(LABELS, other)
    TokenStore.write(tmp_path / "data" / "places", [[0, 0, 0]], "")
    with pytest.raises(DataError, match="has vectors without places"):
        LabelledData.open(tmp_path / "data").require_rows(LABELS, rows.input)


def test_rows_of_another_kind_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, inputs=np.eye(2), labels=["a", "b"])
    reader = VectorReader()
    rows = reader.learn(reader.read(str(path)))
    data, _ = prepare_rows(tmp_path / "data", reader.read(str(path)), rows, LABELS, what="vectors", max_length=9)
    with pytest.raises(DataError, match="has vectors of 2 numbers, but 3 are needed"):
        data.require_rows(LABELS, Vectors(3))
    with pytest.raises(DataError, match="rows, labels and lines differ in number"):
        LabelledData.open(cut(tmp_path / "data"))


def test_a_recording_that_a_speed_makes_shorter_than_a_window_is_left_out(tmp_path: Path) -> None:
    reader = AudioReader(rate=8_000, bands=20, augmentation=AugmentationConfig(speeds=(1.0, 2.0)))
    noise = np.random.default_rng(0).normal(0, 0.1, 4_000).astype(np.float32)
    examples = [
        Example(line, Recording(f"{line}.wav", noise[:count], 8_000), "a") for line, count in ((1, 4_000), (2, 300))
    ]
    rows = reader.learn(examples)
    options = {"what": "recordings", "max_length": 99, "varied": True}
    data, report = prepare_rows(tmp_path / "data", examples, rows, LABELS, **options)  # type: ignore[arg-type]
    assert str(report).startswith("1 of 2 recordings are used. Empty: line 2.")
    assert len(data.require_rows(LABELS, rows.input)) == 1


def cut(folder: Path) -> Path:
    TokenStore.write(folder / "lines", [[1]], "")
    return folder
