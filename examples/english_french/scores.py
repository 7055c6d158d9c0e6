"""Scores a translator on every held-out domain: BLEU, chrF, repetition, copying of names and numbers, alignment.

    python examples/english_french/scores.py en-fr data/ --out scores.json
    python examples/english_french/scores.py run/ data/ --most 200

`data/` is the folder that `prepare.py` has written. Without `--most`, every line of `test.DOMAIN.tsv` is translated by
the run's own search.

* repetition: the percentage of translations in which three words in succession occur twice, although none do in the
  source; then the percentage of references that do this, and of translations that alone do it;
* in a row: the same percentages of translations and of references for two or more words that occur twice in a row;
* numbers, names: of the numbers that source and reference share, and of the words with a capital letter that they share
  and that training text has at most five times, the percentage that the translation has too;
* anchors: the percentage of words with a known translation (`head.py`) whose row of the run's alignment does not have
  its largest weight there, for the given translations.
"""

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from cleaning import repeats, stutters
from head import anchors

from foveate import Translator
from foveate.data.text import Pair, read_pairs
from foveate.metrics import Links, corpus_bleu, corpus_chrf
from foveate.tasks.word_alignment import score_heads

RARE = 5
"""A rare word occurs at most so often in the source of the training text."""
ANCHORED = 500
"""The largest number of lines with anchors that are aligned."""


@dataclass(frozen=True)
class Row:
    """The scores of a domain, in per cent; None where nothing could be counted."""

    domain: str
    sentences: int
    bleu: float
    chrf: float
    repetition: float
    repetition_of_references: float
    own_repetition: float
    in_a_row: float
    in_a_row_in_references: float
    numbers: float | None
    names: float | None
    anchors: float | None


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="the run folder, or the name of a model that comes with foveate")
    parser.add_argument("data", type=Path, help="folder with train.tsv and test.DOMAIN.tsv")
    parser.add_argument("--most", type=int, metavar="N", help="lines of a domain, evenly distributed (all)")
    parser.add_argument("--domains", nargs="+", metavar="DOMAIN", help="(all)")
    parser.add_argument("--out", type=Path, help="file for the scores, the translations beside it")
    arguments = parser.parse_args(argv)
    if arguments.out and not arguments.out.absolute().parent.is_dir():
        parser.error(f"--out: there is no folder {arguments.out.parent}. Make it first")
    translator = Translator.load(arguments.run)
    common = frequent(arguments.data / "train.tsv")
    rows, written = [], {}
    start = time.process_time()
    for path in sorted(arguments.data.glob("test.*.tsv")):
        domain = path.name.split(".")[1]
        if arguments.domains and domain not in arguments.domains:
            continue
        if not path.stat().st_size:  # a domain with validation lines only
            continue
        pairs = list(read_pairs(path))
        pairs = pairs[:: -(-len(pairs) // arguments.most)] if arguments.most else pairs
        outputs = [each.text for each in translator.translate([pair.source for pair in pairs])]
        rows.append(scored(translator, domain, pairs, outputs, common))
        written[domain] = outputs
        print(shown(rows[-1]), flush=True)
    if arguments.out:
        found = {"run": arguments.run, "rows": [asdict(row) for row in rows], "cpu_s": time.process_time() - start}
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        text = json.dumps(written, indent=1, ensure_ascii=False) + "\n"
        arguments.out.with_suffix(".translations.json").write_text(text, encoding="utf-8")
    return 0


def scored(translator: Translator, domain: str, pairs: Sequence[Pair], outputs: Sequence[str], common: set[str]) -> Row:
    """The row of a domain."""
    references = [pair.target for pair in pairs]
    numbers, names = Counter[bool](), Counter[bool]()
    for pair, output in zip(pairs, outputs, strict=True):
        numbers.update(copied(pair, output, r"\d+", set()))
        names.update(copied(pair, output, r"\b\w*[^\W\d_a-zà-öø-ÿ]\w*[^\W\d_]\b", common))
    return Row(
        domain,
        len(pairs),
        corpus_bleu(outputs, references).value,
        corpus_chrf(outputs, references).value,
        *repetitions(pairs, outputs),
        *repetitions(pairs, outputs, stutters)[:2],
        percentage(numbers),
        percentage(names),
        misaligned(translator, pairs),
    )


def repetitions(
    pairs: Sequence[Pair], outputs: Sequence[str], does: Callable[[str], bool] = repeats
) -> tuple[float, float, float]:
    """The percentages of pairs whose output repeats, whose reference does, and whose output alone does, of all pairs.
    Those with a source that repeats count as none of these.
    """
    sides = [
        (does(output), does(pair.target)) for pair, output in zip(pairs, outputs, strict=True) if not does(pair.source)
    ]
    counts = sum(ours for ours, _ in sides), sum(theirs for _, theirs in sides)
    alone = sum(ours and not theirs for ours, theirs in sides)
    written, references, own = (100 * count / len(pairs) for count in (*counts, alone))
    return written, references, own


def frequent(train: Path) -> set[str]:
    """The words that occur more than `RARE` times in the sources of the training text."""
    counts = Counter[str]()
    for pair in read_pairs(train):
        counts.update(re.findall(r"\w+", pair.source))
    return {word for word, count in counts.items() if count > RARE}


def copied(pair: Pair, output: str, pattern: str, common: set[str]) -> list[bool]:
    """For each word of the pattern that both sides have and that is not common, whether the output has it."""
    sides = [Counter(re.findall(pattern, text)) for text in (pair.source, pair.target, output)]
    return [word in sides[2] for word in sides[0] & sides[1] if word not in common]


def percentage(counts: Counter[bool]) -> float | None:
    return 100 * counts[True] / counts.total() if counts else None


def misaligned(translator: Translator, pairs: Sequence[Pair]) -> float | None:
    """The percentage of anchors that the run's own alignment misses."""
    known = [pair for pair in pairs if anchors(pair.source.split(), pair.target.split())][:ANCHORED]
    if not known:
        return None
    gold = [Links.of(anchors(pair.source.split(), pair.target.split())) for pair in known]
    ((_, _, recall),) = score_heads(translator, known, gold, [translator.head])
    return 100 - recall.value


def shown(row: Row) -> str:
    """A row of a Markdown table."""
    figures: list[float | None] = [row.bleu, row.chrf, row.repetition, row.repetition_of_references, row.own_repetition]
    figures += [row.in_a_row, row.in_a_row_in_references, row.numbers, row.names, row.anchors]
    return f"| {row.domain} | {row.sentences:,} | {' | '.join('–' if x is None else f'{x:.1f}' for x in figures)} |"


if __name__ == "__main__":
    raise SystemExit(main())
