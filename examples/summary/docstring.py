"""Prepares Python's documentation for summarisation in one line.

    python examples/summary/docstring.py summary/
    foveate train translate examples/summary/run.toml --source summary/train.tsv --valid-source summary/valid.tsv \
        --out demo/summary
    foveate evaluate demo/summary --source summary/test.tsv

A docstring begins with a line that summarises the rest, so that every machine with Python has pairs of texts and
summaries. The standard library has about two thousand; --code adds another folder of Python files, such as that of
installed packages. The pairs are split by module.
"""

import argparse
import ast
import re
import sysconfig
import warnings
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

TENTHS = {0: "test", 1: "valid"}
"""The held-out parts of the modules, among ten."""
LEAST, MOST = 60, 600
"""The minimum and maximum number of characters of a text."""
LINE = 100
"""The maximum number of characters of a summary."""
UNSUITABLE = re.compile("[\t\0\ud800-\udfff]")
"""Tabs, zero bytes and halves of characters."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for train.tsv, valid.tsv and test.tsv")
    parser.add_argument(
        "--code", type=Path, default=Path(sysconfig.get_paths()["stdlib"]), help="folder of Python files"
    )
    parser.add_argument("--most", type=int, help="maximum number of files")
    arguments = parser.parse_args(argv)
    pairs: dict[str, dict[str, str]] = {"train": {}, "valid": {}, "test": {}}
    files = [path for path in sorted(arguments.code.rglob("*.py")) if wanted(path.relative_to(arguments.code))]
    for path in files[: arguments.most]:
        module = path.relative_to(arguments.code).parts[0]
        pairs[TENTHS.get(zlib.crc32(module.encode()) % 10, "train")].update(summaries(path))
    arguments.out.mkdir(parents=True, exist_ok=True)
    seen: set[str] = set()
    for part in (
        "test",
        "valid",
        "train",
    ):  # remove held-out texts from the training data, because modules may share texts
        rows = [(text, summary) for text, summary in pairs[part].items() if text not in seen]
        seen.update(pairs[part])
        lines = (f"{text}\t{summary}\n" for text, summary in rows)
        (arguments.out / f"{part}.tsv").write_text("".join(lines), encoding="utf-8")
        print(f"{part}: {len(rows):,} pairs")
    return 0


def wanted(path: Path) -> bool:
    """Whether a file belongs to the library, without installed packages and tests."""
    return not {"site-packages", "test", "tests"} & set(path.parts)


def summaries(path: Path) -> Iterator[tuple[str, str]]:
    """The texts and first lines of all docstrings of a file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: expressions of great depth
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            pair = parts(ast.get_docstring(node) or "")
            if pair is not None:
                yield pair


def parts(said: str) -> tuple[str, str] | None:
    """The text and its summary, each as one line; None if one is missing, has an unsuitable length, or a character that
    no text file may have.

    >>> said = "Return the sum.\\n\\nStart from 0 and add every item of an iterable of numbers, the first one first."
    >>> parts(said)
    ('Start from 0 and add every item of an iterable of numbers, the first one first.', 'Return the sum.')
    """
    first, _, rest = said.partition("\n\n")
    summary, text = " ".join(first.split()), " ".join(rest.split())
    fits = 0 < len(summary) <= LINE and LEAST <= len(text) <= MOST
    return (text, summary) if fits and not UNSUITABLE.search(said) else None


if __name__ == "__main__":
    raise SystemExit(main())
