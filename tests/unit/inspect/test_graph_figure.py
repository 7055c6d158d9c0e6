"""Drawings of graphs and molecules: widths that follow weights, bonds, rings and areas."""

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from foveate.cli import main
from foveate.errors import UsageError
from foveate.inspect import Trace, Track, write_trace
from foveate.inspect.figure.graph_figure import graph_lines, graph_svg
from foveate.inspect.trace import given
from foveate.inspect.view import graph

PATH = Track.of_nodes("abc", [[0, 1], [1, 2]], notes=["first", "second", "<third>"])
WEIGHTS = np.array([[1.0, 0, 0], [0.64, 0.36, 0], [0, 0.25, 0.75]], dtype=np.float32)


def widths(drawing: str) -> list[float]:
    """Of the strokes that weights have."""
    return sorted(map(float, re.findall(r'stroke-width="([\d.]+)" stroke="#d55e00"', drawing)))


def test_edges_of_a_query_are_as_wide_as_their_weights_and_a_ring_is_its_own() -> None:
    drawing = graph_svg(PATH, WEIGHTS, query=1)
    ElementTree.fromstring(drawing)
    assert widths(drawing) == [6.3, 8]
    assert widths(graph_svg(PATH, WEIGHTS, query=0)) == [8]
    assert len(widths(graph_svg(PATH, WEIGHTS))) == 5
    assert "&lt;third&gt;" in drawing
    assert "<third>" not in drawing


def test_a_read_out_has_areas_that_grow_with_its_weights_and_no_edges() -> None:
    drawing = graph_svg(PATH, np.array([[0.5, 0.5, 0]], dtype=np.float32), title="Read-out")
    assert widths(drawing) == []
    assert drawing.count("<polygon") == 2 * 3 + 2 + 2  # rims and nodes, areas, and heads of arrows of two edges


def test_bonds_have_their_strokes() -> None:
    def strokes(bond: str) -> int:
        atoms = Track.of_nodes("CO", [[0, 1], [1, 0]], bonds=[bond] * 2)
        return graph_svg(atoms, np.array([[0, 1.0]], dtype=np.float32)).count("<path")

    assert [strokes(bond) for bond in ("single", "double", "triple")] == [1, 2, 3]
    assert strokes("aromatic") > 4


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(UsageError, match="no edges"):
        graph_svg(Track.numbered(3), WEIGHTS)
    with pytest.raises(UsageError, match="2 × 3 weights"):
        graph_svg(PATH, WEIGHTS[:2])
    with pytest.raises(UsageError, match="301 nodes are too many"):
        graph_svg(Track.of_nodes(["x"] * 301, [[], []]), np.eye(301, dtype=np.float32))


def test_the_command_writes_the_graph_of_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = given(torch.from_numpy(WEIGHTS)[None], tracks=("nodes", "nodes"))
    trace = Trace(tracks={"nodes": PATH}, sites=(site,))
    path = str(write_trace(trace, tmp_path / "a.trace"))
    for ending in ("svg", "pdf", "png", "txt"):
        assert main(["look", path, "--out", str(tmp_path / f"a.{ending}")]) == 0
    assert (tmp_path / "a.svg").read_text() == graph(trace)[0]
    assert (tmp_path / "a.txt").read_text() == graph(trace)[1] + "\n"
    assert main(["look", path, "--out", str(tmp_path / "a.doc")]) == 2
    assert "a graph is not written as '.doc'" in capsys.readouterr().err
    assert graph_lines(PATH, WEIGHTS, query=2).splitlines()[0] == "0.750 ██████████ c: <third>"
    with pytest.raises(UsageError, match="no query 3"):
        graph(trace, query=3)
