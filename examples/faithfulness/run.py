"""Measures whether attention tells which words matter, beside gradients and leave-one-out, for trained models.

    python examples/faithfulness/run.py "translator, Transformer"
    python examples/faithfulness/run.py "classifier, GRU" --run demo/sentiment-1 --data sentiment/test.tsv
    python examples/faithfulness/run.py "classifier, Transformer" --run demo/sentiment-t1 --data sentiment/test.tsv
    python examples/faithfulness/run.py "tagger, Transformer" --run demo/addresses-1 --data addresses/test.txt

A run's seed is in its configuration: a call adds the figures of one training seed to its table. The first line takes
the translator that comes with Foveate, and verses of the four Bible books that were held out when it was trained, from
the bundled table. The data of the others, and the commands that train them, are in `examples/classifying/sentiment.py`
and `examples/tagging/addresses.py`; "Transformer" is `--set model.encoder=transformer`, another seed `--set seed=1`.
The sentences are taken at equal distances from the file. Figures are means with standard errors over sentences; they
are kept in results.json beside this script, and `examples/tables.py` writes them into docs/faithfulness.md.
"""

import argparse
import json
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from foveate.data.text import read_lines
from foveate.inspect.attribution import Faithfulness, faithfulness
from foveate.storage.checkpoint import read_best
from foveate.storage.run import Run, read_run
from foveate.storage.shipped import run_folder
from foveate.tasks import task_of

HERE = Path(__file__).parent
VERSES = HERE.parent / "data" / "verses.tsv.xz"
UNSEEN = ("8", "27", "43", "45")
"""Ruth, Daniel, John and Romans, the test books of the shipped translator."""
ENGLISH = 2
"""The column of the World English Bible."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", help="name of the table: what is measured")
    parser.add_argument("--run", default="en-fr", help="run folder of a translator, tagger or classifier")
    parser.add_argument("--data", help="file of examples; without it, the bundled verses")
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--occlude", choices=["remove", "unknown", "mask"], help="how words are switched off")
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    run = read_run(run_folder(arguments.run))
    side = task_of(run).side
    model = side.load(arguments.run)
    texts = verses() if arguments.data is None else examples(side, model, arguments)
    chosen = evenly(texts, arguments.sentences)
    begin = time.process_time()
    measured = faithfulness(map(model.answer, chosen), way=arguments.occlude)
    seconds = time.process_time() - begin
    keep(arguments.table, run, measured, seconds, arguments.results)
    print(measured)
    return 0


def verses() -> list[str]:
    """The bundled verses that the shipped translator was not trained on."""
    rows = (line.split("\t") for line in read_lines(str(VERSES)))
    return [row[ENGLISH] for row in rows if row[0].split(".")[0] in UNSEEN]


def examples(side: Any, model: Any, arguments: Namespace) -> list[str]:
    """The texts of a file, as `foveate evaluate --faithfulness` reads them."""
    options = {"run": arguments.run, "columns": None, side.entry.first: arguments.data, "target": None}
    return [text for text in side.texts(model, Namespace(**options)) if text.strip()]


def evenly(texts: Sequence[str], count: int) -> list[str]:
    """So many texts at equal distances; all of them if there are fewer.

    >>> evenly("abcdef", 3)
    ['a', 'c', 'e']
    """
    return [texts[number * len(texts) // count] for number in range(count)] if len(texts) > count else list(texts)


def keep(table: str, run: Run, measured: Faithfulness, seconds: float, path: Path) -> None:
    """Add the figures of one seed, over earlier ones of the same seed."""
    seed = str(run.config["seed"])
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for method, means in measured.figures.items():
        written = {name: mean.plain() for name, mean in means.items()}
        cells = {name: each["value"] for name, each in written.items()}
        cells |= {f"{name} error": each["error"] for name, each in written.items()}
        results.setdefault(table, {}).setdefault(method, {})[seed] = cells
    about: dict[str, Any] = {"sentences": measured.sentences, "way": measured.way, "CPU seconds": round(seconds, 1)}
    if (run.folder / "best.json").exists():
        about |= {f"validation {name}": value for name, value in read_best(run.folder).metrics.items()}
    results.setdefault("measurements", {}).setdefault(table, {})[seed] = about
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
