"""Scores a translator of several languages in every direction and domain: BLEU, chrF and repetition.

    export PYTHONPATH=examples/english_french
    python examples/five_languages/direction_scores.py run/ many/data/many --out scores.json

It translates the files `test.DIRECTION.DOMAIN.tsv` of `combine.py` by the run's own search, and prints a table for a
page. A run in training is read from its best checkpoint. BLEU is sacrebleu's: of Chinese, with its tokeniser `zh`, of
other languages with `13a`. Repetition is the percentage of translations in which three words, or Chinese characters, in
succession occur twice, although none do in the source.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from cleaning import repeats
from combine import evenly

from foveate import Translator
from foveate.data.text import read_pairs
from foveate.metrics.corpus import FOR_CHINESE, FOR_SENTENCES, evaluate
from foveate.storage.checkpoint import load_weights


@dataclass(frozen=True)
class Row:
    """The scores of a domain in one direction, in per cent, with the signature of BLEU."""

    direction: str
    domain: str
    sentences: int
    bleu: float
    chrf: float
    repetition: float
    signature: str


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the run folder")
    parser.add_argument("data", type=Path, help="folder with test.DIRECTION.DOMAIN.tsv")
    parser.add_argument("--most", type=int, metavar="N", help="lines of a domain, evenly distributed (all)")
    parser.add_argument("--directions", nargs="+", metavar="DIRECTION", help="(all)")
    parser.add_argument("--out", type=Path, help="file for the scores; the translations beside it")
    arguments = parser.parse_args(argv)
    if arguments.out and not arguments.out.absolute().parent.is_dir():
        parser.error(f"--out: there is no folder {arguments.out.parent}. Make it first")
    translator = Translator.load(arguments.run)
    rows: list[Row] = []
    written: dict[str, list[str]] = {}
    start = time.process_time()
    print("| direction | domain | lines | BLEU | chrF | repetition % |\n|---|---|---|---|---|---|")
    for path in sorted(arguments.data.glob("test.*.*.tsv")):
        _, direction, domain, _ = path.name.split(".")
        if arguments.directions and direction not in arguments.directions:
            continue
        if not path.stat().st_size:  # a domain with validation lines only
            continue
        pairs = list(read_pairs(path))
        pairs = evenly(pairs, arguments.most or len(pairs))
        language = direction.partition("-")[2]
        sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
        outputs = [each.text for each in translator.into(language).translate(sources)]
        bleu, chrf = evaluate(outputs, references, (FOR_CHINESE if language == "zh" else FOR_SENTENCES)[:2])
        repeated = sum(repeats(output) and not repeats(source) for source, output in zip(sources, outputs, strict=True))
        share = 100 * repeated / len(pairs)
        rows.append(Row(direction, domain, len(pairs), bleu.value, chrf.value, share, bleu.signature))
        written[f"{direction} {domain}"] = outputs
        print(shown(rows[-1]), flush=True)
    if arguments.out:
        which = load_weights(arguments.run)[1]
        scores = {"weights": which, "rows": [asdict(each) for each in rows], "cpu_s": time.process_time() - start}
        arguments.out.write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")
        text = json.dumps(written, indent=1, ensure_ascii=False) + "\n"
        arguments.out.with_suffix(".translations.json").write_text(text, encoding="utf-8")
    return 0


def shown(row: Row) -> str:
    """A row of a Markdown table."""
    figures = " | ".join(f"{figure:.1f}" for figure in (row.bleu, row.chrf, row.repetition))
    return f"| {row.direction} | {row.domain} | {row.sentences:,} | {figures} |"


if __name__ == "__main__":
    raise SystemExit(main())
