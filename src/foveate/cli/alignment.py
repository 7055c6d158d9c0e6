"""The command line's side of alignments: how a model's attention agrees with gold links."""

import argparse
import json
from pathlib import Path

from foveate.cli.options import pairs_of, require_used
from foveate.cli.setup import prepare_machine, say
from foveate.data.text import Pair, read_lines
from foveate.errors import DataError, UsageError
from foveate.metrics import Score, parse_pharaoh
from foveate.storage.draft import disk_errors
from foveate.suggestion import counted
from foveate.tasks.alignment import every_head, score_heads, word_alignments
from foveate.tasks.translate.head import Head
from foveate.tasks.translate.use import Translator


def evaluate(arguments: argparse.Namespace) -> int:
    """Alignment error rate, precision and recall of a run's attention over given translations."""
    if not arguments.source:
        raise UsageError("--gold with a run needs --source FILE (and --target FILE), the sentences that were linked.")
    for option in ("report", "metrics"):
        if getattr(arguments, option):
            raise UsageError(f"--{option} is for translations, and --gold scores the attention. Leave one of them out.")
    if arguments.per_head and not arguments.save:
        require_used(arguments, dict.fromkeys(("layer", "head", "when"), "--gold alone"), (), "beside --per-head")
    pairs = list(pairs_of(arguments))
    gold = parse_pharaoh(read_lines(arguments.gold), arguments.gold)
    if len(pairs) != len(gold):
        lines, there = counted(len(gold), "line"), counted(len(pairs), "pair")
        raise DataError(f"{arguments.gold} has {lines}, but {arguments.source} has {there} to align.")
    prepare_machine(arguments, quiet=True)
    translator = Translator.load(arguments.run, precision=arguments.precision, note=say)
    chosen = Head.wanted(arguments.layer, arguments.head, arguments.when, translator.head)
    if arguments.save:
        _save(Path(arguments.save), translator, pairs, chosen)
    heads = every_head(translator) if arguments.per_head else [chosen]
    scores = score_heads(translator, pairs, gold, heads, where=arguments.gold)
    if arguments.json:
        tables = [_table(head, found) for head, found in zip(heads, scores, strict=True)]
        print(json.dumps(tables if arguments.per_head else tables[0]))
    elif arguments.per_head:
        for head, found in sorted(zip(heads, scores, strict=True), key=lambda row: row[1][0].value):
            print(head, *(f"{score.name} {score.value:.2f}" for score in found), sep="\t")
    else:
        print(*scores[0], sep="\n")
    return 0


def _table(head: Head, scores: list[Score]) -> dict[str, object]:
    values = {score.name: {"value": score.value, "signature": score.signature} for score in scores}
    return {"layer": head.layer, "head": head.head, "when": head.when, **values}


def _save(path: Path, translator: Translator, pairs: list[Pair], head: Head) -> None:
    links = [alignment.pharaoh() for (alignment,) in word_alignments(translator, pairs, [head])]
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in links), encoding="utf-8")
    say(f"Wrote {path}.")
