"""Scores a tagger of addresses by kind and source of the address, beside the most frequent label and usaddress's CRF.

    pip install usaddress
    python examples/tagging/address_scores.py us-address addresses/ --elsewhere us50_messiest_manual_label.xml --crf

`addresses/` is the folder that `addresses.py` has written; `--elsewhere` is a file of other addresses in the format of
usaddress. The most frequent label of a word is counted in the training data, without regard to case and punctuation; a
word that is not there gets the most frequent label of all. The CRF has the features of usaddress and learns from the
same addresses with the settings of its authors.

Every row has the number of addresses and words, the percentage of words with the right part, and the F1 of exact parts.
"""

import argparse
import json
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from addresses import begun, plain

from foveate.data.labelled import Tagged, read_tagged
from foveate.metrics import span_f1
from foveate.tasks.tag.use import SentenceTagger

Method = Callable[[Sequence[str]], Sequence[str]]
"""The parts of an address's words."""
CRF_SETTINGS = {"c1": 0.1, "c2": 0.01, "feature.minfreq": 0}
"""Those of usaddress's trainer, parserator."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="the run folder of a tagger, or us-address")
    parser.add_argument("addresses", type=Path, help="folder with train.txt and test.txt")
    parser.add_argument("--elsewhere", type=Path, metavar="XML", help="addresses of another source")
    parser.add_argument("--crf", action="store_true", help="train usaddress's CRF, too")
    parser.add_argument("--out", type=Path, help="file for the scores, as JSON")
    arguments = parser.parse_args(argv)
    train, test = (list(read_tagged(arguments.addresses / f"{part}.txt")) for part in ("train", "test"))
    tagger = SentenceTagger.load(arguments.run)
    methods: dict[str, Method] = {"most frequent": most_frequent(train)}
    if arguments.crf:
        methods["usaddress's CRF"] = crf(train)
    methods[arguments.run] = lambda words: parts(tagger.tag([list(words)])[0].tags)
    domains = {"all": test}
    for address in test:
        domains.setdefault(kind(address), []).append(address)
    domains["all, in lower case without punctuation"] = [plain(address) for address in test]
    if arguments.elsewhere:
        domains["from elsewhere"] = list(elsewhere(arguments.elsewhere))
    rows = [
        {
            "addresses": name,
            "number": len(some),
            "words": sum(len(one.words) for one in some),
            **scores(methods, some),
        }
        for name, some in domains.items()
    ]
    print(f"| {' | '.join(rows[0])} |\n|{'---|' * len(rows[0])}")
    for row in rows:
        print(f"| {' | '.join(f'{cell:.1f}' if isinstance(cell, float) else str(cell) for cell in row.values())} |")
    if arguments.out:
        arguments.out.write_text(json.dumps({"run": arguments.run, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    return 0


def scores(methods: dict[str, Method], addresses: Sequence[Tagged]) -> dict[str, float]:
    """The percentage of words with the right part, and the F1 of exact parts, of each method."""
    gold = [parts(address.tags) for address in addresses]
    results = {}
    for name, method in methods.items():
        labels = [list(method(address.words)) for address in addresses]
        pairs = [pair for one, other in zip(labels, gold, strict=True) for pair in zip(one, other, strict=True)]
        results[f"{name}: words"] = 100 * sum(one == other for one, other in pairs) / len(pairs)
        spans = span_f1([list(begun(one)) for one in labels], [list(begun(one)) for one in gold])
        results[f"{name}: F1"] = spans.value
    return results


def parts(tags: Sequence[str]) -> list[str]:
    """
    >>> parts(["B-StreetName", "I-StreetName"])
    ['StreetName', 'StreetName']
    """
    return [tag.partition("-")[2] for tag in tags]


def kind(address: Tagged) -> str:
    """The kind of an address, by the parts that it has."""
    labels = set(parts(address.tags))
    if "IntersectionSeparator" in labels or "CornerOf" in labels:
        return "intersections"
    if "USPSBoxID" in labels:
        return "boxes"
    return "streets with a number" if "AddressNumber" in labels else "others"


def most_frequent(train: Sequence[Tagged]) -> Method:
    """The most frequent part of each word."""
    counts: dict[str, Counter[str]] = {}
    for address in train:
        for word, part in zip(plain(address).words, parts(address.tags), strict=True):
            counts.setdefault(word, Counter())[part] += 1
    best = {word: count.most_common(1)[0][0] for word, count in counts.items()}
    overall = sum(counts.values(), Counter[str]()).most_common(1)[0][0]
    return lambda words: [best.get(word, overall) for word in plain(Tagged(0, tuple(words), ())).words]


def crf(train: Sequence[Tagged]) -> Method:
    """A conditional random field with the features of usaddress."""
    import pycrfsuite
    from usaddress import tokens2features

    trainer = pycrfsuite.Trainer(verbose=False, params=CRF_SETTINGS)
    for address in train:
        trainer.append(tokens2features(list(address.words)), parts(address.tags))
    tagger = pycrfsuite.Tagger()
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(f"{folder}/crf")
        tagger.open(f"{folder}/crf")
        tagger.tag(tokens2features(["1"]))  # read before the file is gone
    return lambda words: tagger.tag(tokens2features(list(words)))


def elsewhere(path: Path) -> Iterator[Tagged]:
    """The addresses of a file whose commas stand between the words' elements."""
    for number, address in enumerate(ElementTree.parse(path).getroot(), start=1):
        words = tuple("".join(word.itertext()).strip() + (word.tail or "").strip(" #\n") for word in address)
        yield Tagged(number, words, tuple(begun([word.tag for word in address])))


if __name__ == "__main__":
    raise SystemExit(main())
