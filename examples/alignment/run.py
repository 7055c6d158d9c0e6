"""Compares the attention of models with word alignments by people, in a table of alignment error rates.

    pip download --no-deps bible-alignments==0.4.2 && unzip bible_alignments-*.whl 'data/*'
    python examples/alignment/prepare.py data/ gold/ --lower --lemma
    python examples/alignment/run.py gold/ --out demo/alignment

It trains every model without links, with links of an IBM model (which does not need people) and with links by people;
it chooses the head and the moment on the validation books, and scores the test books. Finished results are stored in
OUT/results.json and not repeated; the table is printed and written to OUT/table.md. Without a folder of data it uses
the four bundled letters, which are too few for learning.
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from foveate.config import build, to_dict
from foveate.data.text import Pair, read_lines, read_pairs
from foveate.inspect import Alignment, write
from foveate.inspect.aligner import align, diagonal
from foveate.metrics import Links, Score, link_scores, parse_pharaoh
from foveate.storage.run import create_run
from foveate.tasks.translate.alignment_head import Head
from foveate.tasks.translate.side import SIDE
from foveate.tasks.translate.task import TranslateTask
from foveate.tasks.translate.use import Translator
from foveate.tasks.word_alignment import every_head, score_heads, word_alignments
from foveate.train import fit

SLICE = Path(__file__).parents[1] / "data" / "alignment.tsv.xz"
COLUMNS = (0, 1)
"""The columns of Greek and English; links and verse follow them."""
SIZE = 128


def luong(**attention: Any) -> dict[str, Any]:
    """Without input feeding, so that all words of a sentence are computed at once."""
    sizes = {"embedding_dim": SIZE, "hidden_dim": SIZE, "bidirectional": True, "input_feeding": False}
    return {"kind": "luong", **sizes, "attention": attention}


MODELS: dict[str, dict[str, Any]] = {
    "luong general": luong(score={"kind": "general"}),
    "transformer": {
        "kind": "transformer",
        "block": {"model_dim": SIZE, "num_heads": 4, "feedforward_dim": 2 * SIZE},
        "encoder_layers": 2,
        "decoder_layers": 2,
    },
    "bahdanau": {"kind": "bahdanau", "embedding_dim": SIZE, "hidden_dim": SIZE, "maxout_dim": SIZE},
    "luong local-p": luong(kind="local_predictive", window=5),
    "luong dot": luong(score={"kind": "dot"}),
    "luong concat": luong(score={"kind": "additive"}),
    "luong local-m": luong(kind="local_monotonic", window=5),
}
GUIDES = {"none": None, "people": "people.links", "ibm": "ibm.links"}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="output folder of prepare.py")
    parser.add_argument("--out", type=Path, default=Path("demo/alignment"), help="folder for runs and results")
    parser.add_argument("--epochs", type=float, default=3, help="number of epochs of every model (3)")
    parser.add_argument("--only", default="", metavar="A,B", help="models to train, by the beginning of their names")
    parser.add_argument("--guides", default="none,people,ibm", metavar="A,B", help="none, people, ibm")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="random starts of each model (1)")
    parser.add_argument("--small", action="store_true", help="a few verses and steps, to test the code")
    arguments = parser.parse_args(argv)
    if arguments.small:
        arguments.epochs = 0.0
    data = prepared(arguments.data, arguments.out, most=20 if arguments.small else None)
    results = Results(arguments.out)
    if not results.has("diagonal", "", 0):
        for name, found in baselines(data):
            results.add(name, "", 0, found)
    wanted = tuple(arguments.only.split(",")) if arguments.only else ("",)
    for seed in range(arguments.seeds):
        for name in (name for name in MODELS if name.startswith(wanted)):
            for guide in arguments.guides.split(","):
                if not results.has(name, guide, seed):
                    translator = trained(name, guide, seed, arguments.out, arguments.epochs)
                    heads = ranked(translator, *data["valid"])
                    results.add(name, guide, seed, scored(translator, *data["test"], heads))
                    draw(translator, data["test"][0], heads[0], arguments.out / f"{name} {guide}.svg".replace(" ", "-"))
    print(results.table())
    return 0


class Results:
    """The results, stored after every model."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "results.json"
        self.rows: list[dict[str, Any]] = json.loads(self.path.read_text()) if self.path.exists() else []

    def has(self, name: str, guide: str, seed: int) -> bool:
        return any((row["name"], row["guide"], row["seed"]) == (name, guide, seed) for row in self.rows)

    def add(self, name: str, guide: str, seed: int, found: Mapping[str, Any]) -> None:
        if not self.has(name, guide, seed):
            self.rows.append({"name": name, "guide": guide, "seed": seed, **found})
            self.path.write_text(json.dumps(self.rows, indent=1, ensure_ascii=False))
            (self.folder / "table.md").write_text(self.table())
            print(self.rows[-1], flush=True)

    def table(self) -> str:
        """A line for each model and reading of its alignment, with the mean and range of error rates over random
        starts.
        """
        kinds: dict[tuple[str, str, str], list[Mapping[str, float]]] = {}
        for row in self.rows:
            for way, scores in row["ways"].items():
                kinds.setdefault((row["name"], row["guide"], way), []).append(scores)
        lines = ["| model | links | read as | AER | precision | recall |", "|---|---|---|---|---|---|"]
        for (name, guide, way), found in kinds.items():
            cells = [_spread([scores[part] for scores in found]) for part in ("AER", "precision", "recall")]
            lines.append(f"| {name} | {guide} | {way} | {' | '.join(cells)} |")
        return "\n".join(lines) + "\n"


Parts = Mapping[str, tuple[list[Pair], list[Links]]]


def prepared(data: Path | None, out: Path, *, most: int | None = None) -> Parts:
    """The pairs and gold links of the three parts; training files are written to OUT."""
    out.mkdir(parents=True, exist_ok=True)
    if data is None:
        lines = list(read_lines(SLICE))
        chosen = {"train": lines[60:], "valid": lines[:30], "test": lines[30:60]}
    else:
        chosen = {part: list(read_lines(data / f"{part}.tsv")) for part in ("train", "valid", "test")}
    found = {}
    for part, rows in ((part, rows[:most]) for part, rows in chosen.items()):
        path, text = out / f"{part}.tsv", "".join(f"{row}\n" for row in rows)
        if path.exists() and path.read_text(encoding="utf-8") != text:
            raise SystemExit(f"{path} is of other data, and so are the results beside it. Give another --out.")
        path.write_text(text, encoding="utf-8")
        found[part] = (list(read_pairs(path, columns=COLUMNS)), parse_pharaoh([row.split("\t")[2] for row in rows]))
    _write_links(out / "people.links", [links.possible for links in found["train"][1]])
    if not (out / "ibm.links").exists():
        pairs = _words(found["train"][0])
        _write_links(out / "ibm.links", align(pairs, pairs))
    return found


def baselines(data: Parts) -> Iterator[tuple[str, dict[str, Any]]]:
    """The diagonal, and the IBM model on the training books and on all books; it never sees links."""
    (pairs, gold), train = data["test"], _words(data["train"][0])
    yield "diagonal", {"ways": {"": _values(link_scores([diagonal(*pair) for pair in _words(pairs)], gold))}}
    for name, text in (("IBM", train), ("IBM, test text too", train + _words(data["valid"][0]) + _words(pairs))):
        yield name, {"ways": {"grow-diag-final-and": _values(link_scores(align(text, _words(pairs)), gold))}}


def trained(name: str, guide: str, seed: int, out: Path, epochs: float) -> Translator:
    """A model after some epochs, with small settings for little text."""
    folder = out / f"{name}-{guide}-{seed}".replace(" ", "-")
    links = {"links": str(out / GUIDES[guide])} if GUIDES[guide] else {}
    files = {"source": str(out / "train.tsv"), "valid_source": str(out / "valid.tsv")}
    sides = {side: {"kind": "word", "min_count": 2} for side in ("source_tokeniser", "target_tokeniser")}
    # A Transformer and Luong's decoder know a word when they consume it, Bahdanau's does not (docs/alignment.md).
    place = {"weight": 5.0} | ({"head": 0, "when": "consuming"} if name != "bahdanau" else {})
    mapping = {
        "model": MODELS[name],
        "data": {**files, **links, "columns": COLUMNS, "max_tokens": 1500},
        "guide": place,
        "label_smoothing": 0.0,
        "seed": seed,
        **sides,
    }
    config = build(SIDE.run_config, mapping)
    task, _ = TranslateTask.prepare(config, folder)
    steps = max(int(epochs * task.steps_per_epoch), 2)
    rate = {"learning_rate": 3e-3, "schedule": {"kind": "cosine", "warmup": max(steps // 10, 1)}, "seed": seed}
    config = build(
        SIDE.run_config, mapping | {"train": {"steps": steps, "validate_every": steps, "save_every": steps, **rate}}
    )
    create_run(folder, "translate", to_dict(config), task.digests)
    started = time.process_time()
    outcome = fit(task, config.train, folder, configuration=to_dict(config))
    print(f"{name}, {guide}: {steps} steps, {time.process_time() - started:.0f} s; {outcome.best}", flush=True)
    return Translator(task.model, task.source_tokeniser, task.target_tokeniser)


def ranked(translator: Translator, pairs: Sequence[Pair], gold: Sequence[Links]) -> list[Head]:
    """All heads and means of layers, at both moments, the best first."""
    heads = every_head(translator)
    error = [scores[0].value for scores in score_heads(translator, pairs, gold, heads)]
    return [heads[place] for place in np.argsort(error, kind="stable")]


def scored(
    translator: Translator, pairs: Sequence[Pair], gold: Sequence[Links], heads: Sequence[Head]
) -> dict[str, Any]:
    """The scores of the first head; with several heads, also of the mean of a layer and of all layers."""
    means = [head for head in heads if head.head is None]
    ways = {str(heads[0]): heads[0], f"mean of layer {means[0].layer}, {means[0].when}": means[0]}
    several = len(heads) > 2
    chosen = list(ways.values())[: 1 + several]
    scores = score_heads(translator, pairs, gold, chosen)
    found = {way: _values(each) for way, each in zip(ways, scores, strict=False)}
    if several:
        every = [head for head in means if head.when == means[0].when]
        found[f"mean of all heads, {means[0].when}"] = _values(_of_mean(translator, pairs, gold, every))
    return {"ways": found}


def _of_mean(
    translator: Translator, pairs: Sequence[Pair], gold: Sequence[Links], layers: Sequence[Head]
) -> list[Score]:
    alignments = word_alignments(translator, pairs, layers)
    means = [Alignment.of(each[0].source, each[0].target, np.mean([a.weights for a in each], 0)) for each in alignments]
    return link_scores([alignment.hard() for alignment in means], gold)


def draw(translator: Translator, pairs: Sequence[Pair], head: Head, path: Path) -> None:
    """Draw the first verse of the test books."""
    ((alignment,),) = word_alignments(translator, pairs[:1], [head])
    write(alignment, path)


def _words(pairs: Sequence[Pair]) -> list[tuple[list[str], list[str]]]:
    return [(pair.source.split(), pair.target.split()) for pair in pairs]


def _write_links(path: Path, links: Sequence[Any]) -> None:
    lines = (" ".join(f"{source}-{target}" for source, target in sorted(each)) for each in links)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _values(scores: Sequence[Score]) -> dict[str, float]:
    return {score.name: round(score.value, 2) for score in scores}


def _spread(values: Sequence[float]) -> str:
    mean = f"{np.mean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.1f}–{max(values):.1f})"


if __name__ == "__main__":
    torch.set_num_threads(1)
    raise SystemExit(main())
