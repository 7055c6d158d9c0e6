"""Finds translations that a translator prefers to better ones of its own, to be trained against.

    python examples/english_french/prefer.py en-fr data/ --out hard/

Of the candidates of beam search for a training line, the first is rejected for the one that is nearest to the line's
own translation, if the first

* repeats three words, which the source does not: other candidates are searched for without repeated n-grams, too;
* lacks a name with a capital letter, or a number, that both sides have;
* is farther from the translation by `--gap` or more (chrF).

No chosen candidate has these faults, or eight consecutive words of a held-out line. `hard/train.tsv` has the sources
with the chosen candidates, the first two kinds several times (`--copies`), and `hard/train.rejected` the rejected
ones; `foveate train translate --rejected` reads them, beside other text whose lines are empty there.
"""

import argparse
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from cleaning import NUMBER, repeats
from distil import AT_ONCE, copied
from prepare import consecutive

from foveate import Translator
from foveate.data.text import read_pairs
from foveate.metrics import corpus_chrf
from foveate.search import BeamConfig

BLOCKED = (3, 4, 5, 6)
"""Lengths of n-grams of pieces that a search may not repeat, one after another."""
COPIES = {"repetition": 6, "name": 4, "number": 4, "distance": 1}


class Choice(NamedTuple):
    """A better candidate and the rejected one."""

    fault: str
    source: str
    better: str
    rejected: str


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a run, or the name of a model")
    parser.add_argument("data", type=Path, help="the folder that prepare.py has written")
    parser.add_argument("--lines", type=int, default=160_000, metavar="N", help="lines to translate (160,000)")
    parser.add_argument("--words", type=int, default=10, metavar="N", help="the fewest words of such a line (10)")
    parser.add_argument("--beam", type=int, default=5, metavar="N", help="candidates of a line (5)")
    parser.add_argument("--gap", type=float, default=8.0, metavar="CHRF", help="the least difference (8)")
    parser.add_argument("--least", type=float, default=45.0, metavar="CHRF", help="the least chrF of a candidate (45)")
    parser.add_argument("--copies", nargs="*", default=[], metavar="FAULT=N", help=f"({COPIES})")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the choice of lines (0)")
    parser.add_argument("--precision", choices=["float32", "bfloat16", "int8"], default="int8", help="(int8)")
    parser.add_argument("--out", type=Path, required=True, help="folder for train.tsv, train.rejected and valid.tsv")
    arguments = parser.parse_args(argv)
    copies = {**COPIES, **{name: int(count) for name, _, count in (text.partition("=") for text in arguments.copies)}}
    if copies.keys() - COPIES:
        parser.error(f"--copies: faults are {', '.join(COPIES)}")
    if arguments.out.resolve() == arguments.data.resolve():
        parser.error(f"--out: {arguments.data} is the folder that is read. Name another one.")
    lines = dict.fromkeys((pair.source, pair.target) for pair in read_pairs(arguments.data / "train.tsv"))
    pairs = [pair for pair in lines if len(pair[0].split()) >= arguments.words and not repeats(pair[0])]
    Random(arguments.seed).shuffle(pairs)
    held_out = [arguments.data / "valid.tsv", *sorted(arguments.data.glob("test.*.tsv"))]
    unseen = {gram for path in held_out for pair in read_pairs(path) for gram in consecutive(pair.target)}
    chooser = Chooser(
        Translator.load(arguments.run, precision=arguments.precision),
        BeamConfig(beam=arguments.beam, num_best=arguments.beam),
        unseen,
        gap=arguments.gap,
        least=arguments.least,
    )
    choices = list[Choice]()
    for start in range(0, min(arguments.lines, len(pairs)), AT_ONCE):
        choices += chooser.choices(pairs[start : min(start + AT_ONCE, arguments.lines)])
        faults = Counter(choice.fault for choice in choices)
        done = min(start + AT_ONCE, arguments.lines, len(pairs))
        print(f"{done:,} lines: {', '.join(f'{count:,} {name}' for name, count in faults.items())}", flush=True)
    written = [choice for choice in choices for _ in range(copies[choice.fault])]
    Random(arguments.seed).shuffle(written)
    arguments.out.mkdir(parents=True, exist_ok=True)
    texts = {
        "train.tsv": "".join(f"{choice.source}\t{choice.better}\n" for choice in written),
        "train.rejected": "".join(f"{choice.rejected}\n" for choice in written),
    }
    for name, text in texts.items():
        (arguments.out / name).write_text(text, encoding="utf-8")
    shutil.copyfile(arguments.data / "valid.tsv", arguments.out / "valid.tsv")
    return 0


class Chooser:
    """Chooses between a translator's candidates by the translations that are known."""

    def __init__(
        self, translator: Translator, search: BeamConfig, unseen: set[tuple[str, ...]], *, gap: float, least: float
    ) -> None:
        """`unseen` are consecutive words that no candidate may have."""
        self.translator, self.search, self.unseen = translator, search, unseen
        self.gap, self.least = gap, least

    def choices(self, pairs: Sequence[tuple[str, str]]) -> list[Choice]:
        """The pairs whose first candidate another one is preferred to."""
        answers = self.translator.translate([source for source, _ in pairs], config=self.search)
        chosen, repeated = list[Choice](), list[tuple[str, str, str]]()
        for (source, target), answer in zip(pairs, answers, strict=True):
            first = answer.texts[0]
            fault = self.fault(first, source, target)
            if fault == "repetition":
                repeated.append((source, target, first))
                continue
            distance = similarity(first, target)
            value, better = self.best(answer.texts, source, target)
            if better and value >= (distance - 5 if fault else distance + self.gap):
                chosen.append(Choice(fault or "distance", source, better, first))
        return chosen + self.without_repetition(repeated)

    def without_repetition(self, repeated: Sequence[tuple[str, str, str]]) -> list[Choice]:
        """A candidate that does not repeat itself for each source, by a search that may not."""
        chosen, left = list[Choice](), list(repeated)
        for length in BLOCKED:
            search = BeamConfig(beam=self.search.beam, num_best=self.search.beam, no_repeat_ngram=length)
            answers = self.translator.translate([source for source, _, _ in left], config=search)
            remaining = list[tuple[str, str, str]]()
            for (source, target, first), answer in zip(left, answers, strict=True):
                # Where the first one has a name or number wrong, so may this: it is compared by what is wrong no more.
                value, better = self.best(answer.texts, source, first, target)
                if better and value >= similarity(first, target) - 3:
                    chosen.append(Choice("repetition", source, better, first))
                else:
                    remaining.append((source, target, first))
            left = remaining
        return chosen

    def best(self, candidates: Sequence[str], source: str, model: str, target: str | None = None) -> tuple[float, str]:
        """The candidate nearest to the target, of those without the faults, and its chrF; empty if there is none.
        Names and numbers are to be those of `model`, which is the target unless one is given.
        """
        target = model if target is None else target
        scored = [
            (similarity(candidate, target), candidate)
            for candidate in candidates
            if not self.fault(candidate, source, model) and self.unseen.isdisjoint(consecutive(candidate))
        ]
        value, candidate = max(scored, default=(0.0, ""))
        return (value, candidate) if value >= self.least else (0.0, "")

    @staticmethod
    def fault(candidate: str, source: str, target: str) -> str | None:
        """The first fault of a candidate beside a translation."""
        if repeats(candidate):
            return "repetition"
        if copied(source, target) - copied(target, candidate):
            return "name"
        return "number" if sorted(NUMBER.findall(candidate)) != sorted(NUMBER.findall(target)) else None


def similarity(candidate: str, target: str) -> float:
    return corpus_chrf([candidate], [target]).value


if __name__ == "__main__":
    raise SystemExit(main())
