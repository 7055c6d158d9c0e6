"""What rounding the stored weights of a translator costs: size, and scores on test files.

    python benchmarks/stored_weights.py en-fr data/test.verses.tsv data/test.interface.tsv --most 500
    python benchmarks/stored_weights.py run/ data/test.*.tsv
    python benchmarks/stored_weights.py en-sounds demo/data/test.tsv --metrics phone_error sentence_error

Each file has lines of source and reference, as `examples/english_french/prepare.py` writes them. The weights are those
of the run, and the same rounded to bfloat16 and to int8; arithmetic is float32, and in the last row int8, too.
"""

import argparse
import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import race
import torch

from foveate import Translator, machine
from foveate.data.text import read_pairs
from foveate.errors import UsageError
from foveate.metrics.corpus import evaluate
from foveate.storage.checkpoint import load_weights, save_final
from foveate.storage.rounded_weight import Stored
from foveate.storage.shipped import run_folder

WAYS: dict[str, tuple[Stored, str]] = {
    "as it is": ("", "float32"),
    "bfloat16": ("bfloat16", "float32"),
    "int8": ("int8", "float32"),
    "int8, computed in int8": ("int8", "int8"),
}


def scores(folder: Path, precision: Any, files: dict[str, list[Any]], metrics: list[str]) -> dict[str, Any]:
    """The values of the metrics by file, and the translations."""
    translator, results = Translator.load(folder, precision=precision), {}
    for name, pairs in files.items():
        texts = [one.text for one in translator.translate([pair.source for pair in pairs])]
        values = evaluate(texts, [pair.target for pair in pairs], metrics)
        results[name] = {"values": {str(score).split(" = ")[0]: score.value for score in values}, "texts": texts}
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a finished run, or the name of a model that comes with foveate")
    parser.add_argument("files", type=Path, nargs="+", help="lines of source and reference")
    parser.add_argument("--most", type=int, metavar="N", help="lines of a file, evenly distributed (all)")
    parser.add_argument("--metrics", nargs="+", default=["bleu", "chrf"], help="(bleu chrf)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    machine.tune()
    files = {}
    for path in arguments.files:
        pairs = list(read_pairs(path))
        files[path.stem] = pairs[:: max(1, len(pairs) // (arguments.most or len(pairs)))][: arguments.most]
    run = run_folder(arguments.run)
    weights, description = load_weights(run)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for label, (stored, precision) in WAYS.items():
            folder = Path(scratch) / label
            folder.mkdir()
            for path in run.glob("*.json"):
                shutil.copy(path, folder)
            save_final(folder, weights, {"weights": description}, stored=stored)
            size = (folder / "model.safetensors").stat().st_size
            with contextlib.suppress(UsageError):  # int8 products are for Transformers
                values = scores(folder, precision, files, arguments.metrics)
                results[label] = {"megabytes": size / 1e6, "scores": values}
    print(_table(results, {name: len(pairs) for name, pairs in files.items()}))
    result = {"machine": race.machine(1), "settings": race.settings(arguments), "weights": description}
    kept = {label: {**row, "scores": _without_texts(row["scores"])} for label, row in results.items()}
    print(f"\nkept in {race.save('stored-weights', {**result, 'results': kept})}")


def _without_texts(scores: dict[str, Any]) -> dict[str, Any]:
    return {file: {name: value for name, value in row.items() if name != "texts"} for file, row in scores.items()}


def _table(results: dict[str, Any], sizes: dict[str, int]) -> str:
    first = results["as it is"]["scores"]
    header, rows = ["weights", "MB", *(f"{name} ({size})" for name, size in sizes.items())], []
    for label, row in results.items():
        cells = []
        for name, one in row["scores"].items():
            one["equal"] = sum(a == b for a, b in zip(one["texts"], first[name]["texts"], strict=True)) / sizes[name]
            cells.append(" / ".join(f"{value:.2f}" for value in one["values"].values()) + f" / {one['equal']:.0%}")
        rows.append([label, f"{row['megabytes']:.2f}", *cells])
    return race.table(header, rows)


if __name__ == "__main__":
    main()
