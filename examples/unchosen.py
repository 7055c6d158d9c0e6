"""Writes a page with ten test examples that nobody chose, as a model answers them, with its attention.

    python examples/unchosen.py us-address addresses/test.txt --out docs/models/ten_addresses.md
    python examples/unchosen.py en-sounds demo/data/test.tsv --out docs/models/ten_words.md
    python examples/unchosen.py en-fr data/test.interface.tsv data/test.verses.tsv --out docs/models/ten_sentences.md
    python examples/unchosen.py examples/five_languages/model many/test.en-fa.verses.tsv many/test.en-zh.interface.tsv \
      --card five_languages.md --out docs/models/ten_scripts.md

The examples have the same distance in a test file: of 1,000 they are the hundredth, the two hundredth, and so on. Of
two files each has five. The files are those of the model card. Of translators', only verses and interfaces may be
quoted in a page: their texts are in the public domain or under Apache-2.0. A translator of several languages translates
`test.DIRECTION.DOMAIN.tsv` in this direction. The page is to be written again when the model changes.
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from foveate import Translator
from foveate.data.labelled import read_tagged
from foveate.data.text import read_pairs
from foveate.inspect.figure.text_block import terminal
from foveate.inspect.self_attention import self_attention
from foveate.storage.run import read_run
from foveate.storage.shipped import SHIPPED, run_folder
from foveate.tasks.tag.use import SentenceTagger, TaggedSentence

Example = TypeVar("Example")
COUNT = 10
WIDTH = 110
"""Columns of a drawing."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a model that comes with foveate, or the run folder of a translator or a tagger")
    parser.add_argument("tests", type=Path, nargs="+", help="files with test examples")
    parser.add_argument("--out", type=Path, required=True, help="the page to write")
    parser.add_argument("--card", help="the address of the model card (that of a model that comes with foveate)")
    arguments = parser.parse_args(argv)
    writing = tags if read_run(run_folder(arguments.run)).task == "tag" else translations
    if COUNT % len(arguments.tests):
        parser.error(
            f"give 1, 2, 5 or 10 test files, not {len(arguments.tests)}: each has as many of the {COUNT} examples"
        )
    examples = "\n".join(writing(arguments.run, arguments.tests))
    arguments.out.write_text(f"{heading(arguments.run, arguments.tests, arguments.card)}\n{examples}", encoding="utf-8")
    return 0


def heading(run: str, tests: Sequence[Path], card: str | None) -> str:
    """The beginning of the page."""
    own = f"../../src/foveate/shipped/{SHIPPED[run].run}/README.md" if run in SHIPPED else "README.md"
    card = card or own
    names = " and ".join(f"`{path.name}`" for path in tests)
    return (
        f"# Ten examples that nobody chose: `{run}`\n\n"
        f"These examples have the same distance from each other in the test data of the [model card]({card}),\n"
        f"{names}. Rows are what is written or labelled, columns are what the model looked at. `examples/unchosen.py`\n"
        "wrote this page.\n"
    )


def evenly(files: Sequence[Sequence[Example]]) -> list[Example]:
    """Ten examples, as many of each file, with the same distance in it: the last one of each part.

    >>> evenly([range(1, 1001)]), evenly([range(1, 11), range(101, 201)])
    ([100, 200, 300, 400, 500, 600, 700, 800, 900, 1000], [2, 4, 6, 8, 10, 120, 140, 160, 180, 200])
    """
    count = COUNT // len(files)
    if min(map(len, files)) < count:
        raise SystemExit(f"A test file has {min(map(len, files))} examples, and {count} are needed.")
    return [file[(place + 1) * len(file) // count - 1] for file in files for place in range(count)]


def translations(run: str, tests: Sequence[Path]) -> Iterator[str]:
    """A section for each pair: source, reference, translation, and the attention between them."""
    chosen = evenly([[(path, pair) for pair in read_pairs(path)] for path in tests])
    translator = Translator.load(run)
    for path, pair in chosen:
        direction = re.fullmatch(r"test\.\w+-(\w+)\.\w+\.tsv", path.name)
        own = translator.into(direction[1]) if direction else translator
        output = own.translate([pair.source])[0]
        alignment = own.align([output])[0]
        words = alignment if run_folder(run).name == "english_sounds" else alignment.words()
        lines = {"source": pair.source, "reference": pair.target, Path(run).name: output.text}
        yield section(f"`{path.name}`, line {pair.line}", lines, terminal(words, width=WIDTH))


def tags(run: str, tests: Sequence[Path]) -> Iterator[str]:
    """A section for each address: its labels, and the mean attention of the first layer."""
    tagger = SentenceTagger.load(run)
    for path, one in evenly([[(path, one) for one in read_tagged(path)] for path in tests]):
        attention = self_attention(tagger.model, lambda words=one.words: tagger.tag([words]), one.words)
        reference = TaggedSentence(one.words, one.tags, ())
        lines = {"reference": str(reference), run: str(tagger.tag([one.words])[0])}
        drawing = terminal(attention, width=WIDTH) if attention else ""
        yield section(f"`{path.name}`, line {one.line}", lines, drawing)


def section(title: str, lines: dict[str, str], drawing: str) -> str:
    """A heading, a table, and a drawing."""
    rows = "\n".join(f"| {name} | {plain(text)} |" for name, text in lines.items())
    return f"## {title}\n\n| | |\n|---|---|\n{rows}\n\n```text\n{drawing}\n```\n"


def plain(text: str) -> str:
    r"""A text without meaning for Markdown's tables and links.

    >>> print(plain("[a](b) | c"))
    [a]\(b) \| c
    """
    return text.replace("|", r"\|").replace("](", r"]\(")


if __name__ == "__main__":
    raise SystemExit(main())
