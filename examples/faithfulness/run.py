"""Measures whether attention tells which words matter, beside gradients and leave-one-out, for three trained models.

    python examples/faithfulness/run.py translator
    python examples/faithfulness/run.py "classifier, GRU" --run demo/sentiment --data sentiment/test.tsv
    python examples/faithfulness/run.py "classifier, Transformer" --run demo/sentiment-2 --data sentiment/test.tsv
    python examples/faithfulness/run.py "tagger, Transformer" --run demo/addresses --data addresses/test.txt

The first row takes the translator that comes with Foveate, and verses of the four Bible books that were held out when
it was trained, from the bundled table. The data of the others, and the commands that train them, are in
`examples/classifying/sentiment.py` and `examples/tagging/addresses.py`; "Transformer" is `--set
model.encoder=transformer`. The sentences are taken at equal distances from the file. Figures are means with standard
errors over sentences; they are kept in results.json beside this script, and docs/faithfulness.md discusses them.
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
from foveate.storage.run import read_run
from foveate.storage.shipped import run_folder
from foveate.tasks import task_of

HERE = Path(__file__).parent
VERSES = HERE.parent / "data" / "verses.tsv.xz"
UNSEEN = ("8", "27", "43", "45")
"""Ruth, Daniel, John and Romans, the test books of the shipped translator."""
COLUMNS = {"tau": "τ", "tau_size": "τ of sizes", "first": "same first word", "area": "area of deletion"}
"""The columns of the page, by the names of figures."""
ENGLISH = 2
"""The column of the World English Bible."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", help="name of the row of the table")
    parser.add_argument("--run", default="en-fr", help="run folder of a translator, tagger or classifier")
    parser.add_argument("--data", help="file of examples; without it, the bundled verses")
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--occlude", choices=["remove", "unknown", "mask"], help="how words are switched off")
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    side = task_of(read_run(run_folder(arguments.run))).side
    model = side.load(arguments.run)
    texts = verses() if arguments.data is None else examples(side, model, arguments)
    chosen = evenly(texts, arguments.sentences)
    begin = time.process_time()
    measured = faithfulness(map(model.answer, chosen), way=arguments.occlude)
    keep(arguments.row, measured, time.process_time() - begin, arguments.results)
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


def tables(results: dict[str, Any]) -> str:
    """The tables of docs/faithfulness.md."""
    blocks = []
    for row, measured in results.items():
        lines = [f"**{row}**, {measured['sentences']} sentences", ""]
        lines += [f"| | {' | '.join(COLUMNS.values())} |", f"|---|{'---|' * len(COLUMNS)}"]
        for method, figures in measured["figures"].items():
            cells = [f"{figures[name]['value']:z.2f} ± {figures[name]['error']:.2f}" for name in COLUMNS]
            lines.append(f"| {method} | {' | '.join(cells)} |")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def keep(row: str, measured: Faithfulness, seconds: float, path: Path) -> None:
    """Write the figures of a row, over earlier ones."""
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    results[row] = {**measured.plain(), "CPU seconds": round(seconds, 1)}
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
