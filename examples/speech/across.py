"""Recognises which of three languages is spoken, by speakers of the training data and by others: a lesson.

    python examples/speech/prompts.py prompts/
    python examples/speech/captions.py captions/ --languages es,fr,ru
    for l in es fr ru; do cut -f 2 prompts/$l/train.tsv > $l.txt; done
    python examples/speech/phones.py voices/es --text es.txt --language es         # and fr, ru, into their own folders
    python examples/speech/across.py prompts/ captions/ voices/ --out demo/language

The prompts of a language are by one speaker, the captions by others. A classifier that is trained and tested on one of
the two collections is nearly always right, and may have learnt nothing but voices: its accuracy on the other collection
shows it. The third source of training data are 57 synthetic voices, the same ones in every language, which say the
prompts' texts.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from foveate.data.audio_table import read_table
from foveate.data.reader import Example
from foveate.tasks.classify.use import RowClassifier

sys.path.append(str(Path(__file__).parents[1]))
from figures import keep, show
from measure import Recipe, measuring

CONFIGURATION = Path(__file__).parent / "language.toml"
RESULTS = Path(__file__).parent / "results.json"
LANGUAGES = ("es", "fr", "ru")
SOURCES: dict[str, Sequence[str]] = {
    "prompts": ("prompts",),
    "captions": ("captions",),
    "voices": ("voices",),
    "prompts and voices": ("prompts", "voices"),
    "captions and voices": ("captions", "voices"),
    "prompts and captions": ("prompts", "captions"),
}
"""The collections that a classifier learns from."""
PARTS = ("train", "valid", "test")


def main(argv: Sequence[str] | None = None) -> int:
    parser = measuring(__doc__, out=Path("demo/language"), results=RESULTS, seconds=30)
    parser.add_argument("prompts", type=Path, help="the folder that prompts.py has written")
    parser.add_argument("captions", type=Path, help="the folder that captions.py has written")
    parser.add_argument("voices", type=Path, help="the folder with es, fr and ru, each written by phones.py")
    parser.add_argument("--source", choices=SOURCES, action="append", help="train only on this; may be repeated")
    arguments = parser.parse_args(argv)
    collections = {
        "prompts": {part: labelled(arguments.prompts / "language" / f"{part}.tsv") for part in PARTS},
        "captions": {part: labelled(arguments.captions / f"{part}.tsv") for part in PARTS},
        "voices": {part: spoken(arguments.voices, part) for part in PARTS},
    }
    table = f"language, {arguments.seconds:g} s"
    for source in arguments.source or SOURCES:
        data = {name: written(arguments.out, source, name, collections) for name in ("train", "valid")}
        recipe = Recipe(
            task="classify", configuration=CONFIGURATION, data={"data": data["train"], "valid_data": data["valid"]}
        )
        for seed in arguments.seeds:
            run = arguments.out / f"{source}-{seed}-{arguments.seconds:g}"
            store = arguments.out / f"{source}-store"
            spent = recipe.train((), seed, run, store=store, seconds=arguments.seconds)
            classifier = RowClassifier.load(run)
            figures = {
                f"on {name}": accuracy(classifier, tested(source, name, parts)) for name, parts in collections.items()
            }
            keep(table, source, seed, {**figures, **spent}, path=arguments.results)
            show(table, path=arguments.results)
    for name, parts in collections.items():
        print(f"{name}: the most frequent language has {majority(tested('', name, parts)):.1f} %")
    return 0


def tested(source: str, name: str, parts: Mapping[str, Sequence[Example]]) -> Sequence[Example]:
    """The test part of a collection that the classifier has learnt from; all of another."""
    return parts["test"] if name in SOURCES.get(source, ()) else [one for part in PARTS for one in parts[part]]


def labelled(path: Path) -> list[Example]:
    """The recordings of a table in one of the languages."""
    return [one for one in read_table(str(path)) if one.label in LANGUAGES]


def spoken(folder: Path, part: str) -> list[Example]:
    """The recordings of synthetic voices in all languages."""
    tables = {language: read_table(str(folder / language / f"{part}.text.tsv")) for language in LANGUAGES}
    return [Example(one.line, one.thing, language) for language, table in tables.items() for one in table]


def written(folder: Path, source: str, part: str, collections: Mapping[str, Mapping[str, Sequence[Example]]]) -> Path:
    """A table of the recordings of a source."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{source}-{part}.tsv"
    rows = [one for name in SOURCES[source] for one in collections[name][part]]
    path.write_text("".join(f"{one.thing.path.absolute()}\t{one.label}\n" for one in rows), encoding="utf-8")
    return path


def accuracy(classifier: RowClassifier, examples: Sequence[Example]) -> float:
    """The share of recordings with the right label, in percent."""
    answers = classifier.classify([one.thing for one in examples])
    return 100 * sum(answer.label == one.label for answer, one in zip(answers, examples, strict=True)) / len(examples)


def majority(examples: Sequence[Example]) -> float:
    """The share of the most frequent label, in percent."""
    return 100 * max(Counter(one.label for one in examples).values()) / len(examples)


if __name__ == "__main__":
    raise SystemExit(main())
