"""Replaces training translations by the one of a translator's own candidates that is nearest to them.

    python examples/english_french/distil.py en-fr data/ --out near/
    python examples/english_french/distil.py en-fr older/ --lines 50000 --beside 100000 --out near/

Candidates are what beam search finds; several runs translate together, as an ensemble. The nearest has the largest
chrF. A candidate counts only if it has the numbers and names that the translation has, repeats itself no more, shares
no eight consecutive words with a held-out line, and comes as near as `--least`; where none does, the translation
remains. `near/train.tsv` has every line that was
translated and as many others as `--beside` says, drawn from all lines, so that those that come several times still do;
`links.py near/ --known data/` copies their links. A short training with it teaches the translator from what it can
say: sequence-level interpolation (Kim and Rush, Sequence-Level Knowledge Distillation, 2016, section 3.3).
"""

import argparse
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

from cleaning import NUMBER, repeats
from prepare import consecutive

from foveate import Translator
from foveate.data.text import read_pairs
from foveate.metrics import corpus_chrf
from foveate.search import BeamConfig

AT_ONCE = 1024
CAPITALS = re.compile(r"\b\w*[^\W\d_a-zà-öø-ÿ]\w*")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", metavar="RUN… DATA", help="runs or names of models, then a folder")
    parser.add_argument("--lines", type=int, default=100_000, metavar="N", help="lines to translate (100,000)")
    parser.add_argument("--beside", type=int, default=100_000, metavar="N", help="other lines to copy (100,000)")
    parser.add_argument("--words", type=int, default=5, metavar="N", help="the fewest words of such a line (5)")
    parser.add_argument("--beam", type=int, default=5, metavar="N", help="candidates of a line (5)")
    parser.add_argument("--least", type=float, default=45.0, metavar="CHRF", help="the least chrF of a candidate (45)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the choice of lines (0)")
    parser.add_argument("--precision", choices=["float32", "bfloat16", "int8"], default="float32", help="(float32)")
    parser.add_argument("--out", type=Path, required=True, help="folder for train.tsv and valid.tsv")
    arguments = parser.parse_args(argv)
    *runs, folder = arguments.parts
    if not runs:
        parser.error("needs one or more runs, then the folder that prepare.py has written")
    if arguments.out.resolve() == Path(folder).resolve():
        parser.error(f"--out: {folder} is the folder that is read. Name another one.")
    lines = [(pair.source, pair.target) for pair in read_pairs(Path(folder) / "train.tsv")]
    pairs = list(dict.fromkeys(lines))
    chance = Random(arguments.seed)
    chance.shuffle(pairs)
    chosen = [pair for pair in pairs if len(pair[0].split()) >= arguments.words][: arguments.lines]
    rest = set(chosen)
    others = [pair for pair in lines if pair not in rest]
    others = chance.sample(others, min(arguments.beside, len(others)))
    held_out = [Path(folder) / "valid.tsv", *sorted(Path(folder).glob("test.*.tsv"))]
    unseen = {gram for path in held_out for pair in read_pairs(path) for gram in consecutive(pair.target)}
    translators = [Translator.load(run, precision=arguments.precision) for run in runs]
    translator = Translator.ensemble(translators) if len(translators) > 1 else translators[0]
    search = BeamConfig(beam=arguments.beam, num_best=arguments.beam)
    written, taken = others, 0
    for start in range(0, len(chosen), AT_ONCE):
        part = chosen[start : start + AT_ONCE]
        answers = translator.translate([source for source, _ in part], config=search, first=start)
        for (source, target), answer in zip(part, answers, strict=True):
            allowed = [text for text in answer.texts if unseen.isdisjoint(consecutive(text))]
            candidate = nearest(allowed, source, target, arguments.least)
            taken += candidate is not None
            written.append((source, target if candidate is None else candidate))
        print(f"{start + len(part):,} of {len(chosen):,} lines, {taken:,} replaced", flush=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    with (arguments.out / "train.tsv").open("w", encoding="utf-8") as file:
        file.writelines(f"{source}\t{target}\n" for source, target in written)
    shutil.copyfile(Path(folder) / "valid.tsv", arguments.out / "valid.tsv")
    return 0


def nearest(candidates: Sequence[str], source: str, target: str, least: float) -> str | None:
    """The candidate with the largest chrF, of those that may replace a translation; None if there is none."""
    scored = [
        (corpus_chrf([candidate], [target]).value, candidate)
        for candidate in candidates
        if sorted(NUMBER.findall(candidate)) == sorted(NUMBER.findall(target))
        and not copied(source, target) - copied(target, candidate)
        and (not repeats(candidate) or repeats(target))
    ]
    value, candidate = max(scored, default=(0.0, ""))
    return candidate if candidate and value >= least else None


def copied(source: str, target: str) -> Counter[str]:
    """The words with a capital letter that both have."""
    return Counter(CAPITALS.findall(source)) & Counter(CAPITALS.findall(target))


if __name__ == "__main__":
    raise SystemExit(main())
