"""Graphs in `.npz` files, without pickles."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from foveate.data.archive import read_archive
from foveate.data.graph import SPLITS, Graph
from foveate.data.sparse_row import SparseRows, whole_numbers
from foveate.errors import DataError
from foveate.storage.draft import write_file

FORMAT = "foveate graph 1"
REMEDY = "Save the graph with foveate.data.graph_archive.write_graph."
INSTEAD = "Give the graph in several files."


def write_graph(graph: Graph, path: Path) -> None:
    """Write a graph with its splits as `.npz`, which `read_graph` reads.

    `edges` holds sources above targets. Features are `features`, or `feature_pointers`, `feature_columns`,
    `feature_values` and `num_features` in compressed rows. Further arrays are `directed`, `edge_features`, `names`,
    `feature_names`, `labels`, `classes`, `train`, `valid` and `test`; those that the graph lacks are left out.
    """
    arrays: dict[str, Any] = {"format": FORMAT, "edges": graph.edges, "directed": graph.directed, **graph.splits}
    if isinstance(graph.features, SparseRows):
        rows = graph.features
        arrays |= {"feature_pointers": rows.pointers, "feature_columns": rows.columns, "feature_values": rows.values}
        arrays["num_features"] = rows.width
    else:
        arrays["features"] = graph.features
    for name in ("edge_features", "labels"):
        if getattr(graph, name) is not None:
            arrays[name] = getattr(graph, name)
    for name in ("names", "feature_names", "classes"):
        if getattr(graph, name):
            arrays[name] = np.array(getattr(graph, name))
    content = io.BytesIO()
    plain: dict[str, Any] = {name: np.asarray(value) for name, value in arrays.items()}
    np.savez_compressed(content, **plain)
    write_file(path, content.getvalue())


def read_graph(path: Path | str) -> Graph:
    """A graph that `write_graph` wrote, or one of the form of public citation graphs: `edges` with a pair in each row,
    `words_indptr`, `words_indices`, `words_value` and `num_words`, `label`, and the splits.

    Raises DataError if the file is missing, damaged, larger than 8 GiB when unpacked, or not of these forms.
    """
    arrays, _ = read_archive(str(path), lambda names: names, instead=INSTEAD)
    try:
        return _ours(arrays) if "format" in arrays else _citations(arrays)
    except KeyError as error:
        names = ", ".join(sorted(arrays)) or "nothing"
        raise DataError(f"{path} lacks the array {error.args[0]!r} of a graph. It has: {names}. {REMEDY}") from None
    except (ValueError, TypeError, IndexError) as error:
        raise DataError(f"{path} does not hold a graph: {error}") from None


def _ours(arrays: Mapping[str, np.ndarray]) -> Graph:
    if str(arrays["format"]) != FORMAT:
        raise ValueError(f"its format is {str(arrays['format'])!r}, not {FORMAT!r}. Install a newer version.")
    sparse = "feature_pointers" in arrays
    rows = ("feature_pointers", "feature_columns", "feature_values", "num_features")
    return Graph(
        features=_compressed(arrays, *rows) if sparse else arrays["features"],
        edges=arrays["edges"],
        directed=bool(arrays["directed"]),
        edge_features=arrays.get("edge_features"),
        names=tuple(map(str, arrays.get("names", ()))),
        feature_names=tuple(map(str, arrays.get("feature_names", ()))),
        labels=arrays.get("labels"),
        classes=tuple(map(str, arrays.get("classes", ()))),
        splits=_splits(arrays),
    )


def _citations(arrays: Mapping[str, np.ndarray]) -> Graph:
    edges, labels = arrays["edges"], whole_numbers("Labels", arrays["label"])
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise ValueError(f"its edges have the shape {edges.shape}, not two columns.")
    classes = tuple(map(str, range(int(labels.max(initial=-1)) + 1)))
    features = _compressed(arrays, "words_indptr", "words_indices", "words_value", "num_words")
    return Graph(features=features, edges=edges.T, labels=labels, classes=classes, splits=_splits(arrays))


def _compressed(arrays: Mapping[str, np.ndarray], pointers: str, columns: str, values: str, width: str) -> SparseRows:
    number = int(whole_numbers("The number of features", arrays[width]))
    return SparseRows(pointers=arrays[pointers], columns=arrays[columns], values=arrays[values], width=number)


def _splits(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: arrays[name] for name in SPLITS if name in arrays}
