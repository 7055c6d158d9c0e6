"""Phrases of messages: suggestions for misspelt names, counts, and missing files.

`difflib` and `pathlib` would take a tenth of the time of `foveate --help`, which needs neither.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """The question "Did you mean …?" with the most similar choice, after a space; empty without a similar choice.

    >>> did_you_mean("droput", ["dropout", "seed"])
    " Did you mean 'dropout'?"
    >>> did_you_mean("beam", ["dropout", "seed"])
    ''
    """
    import difflib

    if len(word) > 100:  # comparing takes time that grows with its square
        return ""
    similar = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.6)
    return f" Did you mean {similar[0]!r}?" if similar else ""


def names_like(word: str, names: Iterable[str]) -> str:
    """A sentence on the names that are similar to a word, or else on some of all.

    >>> names_like("n21", ["n1", "n2", "n12", "b"]), names_like("x", ["n1", "n2"])
    ('Similar names are: n2, n1, n12.', 'Some names are: n1, n2.')
    """
    import difflib

    names = list(names)
    similar = difflib.get_close_matches(word, names, n=3, cutoff=0.6)
    return f"{'Similar' if similar else 'Some'} names are: {listing(similar or names, 3)}."


def counted(count: int, noun: str) -> str:
    """A number with its noun, in singular or plural.

    >>> counted(1, "pair"), counted(12000, "pair"), counted(2, "hypothesis"), counted(7, "class"), counted(3, "batch")
    ('1 pair', '12,000 pairs', '2 hypotheses', '7 classes', '3 batches')
    """
    many = f"{noun.removesuffix('is')}es" if noun.endswith(("is", "ss", "ch")) else f"{noun}s"
    return f"{count:,} {noun if count == 1 else many}"


def listing(names: Iterable[object], most: int) -> str:
    """The first of some names, and the number of the others.

    >>> listing(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    texts = [*map(str, names)]
    return ", ".join(texts[:most]) + (f" and {len(texts) - most:,} more" if len(texts) > most else "")


def missing_file(path: "Path") -> str:
    """A message about a missing file, with similar names in its folder, or about its missing folder."""
    import difflib

    folder = path.parent
    if not folder.is_dir():
        while not folder.is_dir() and folder != folder.parent:
            folder = folder.parent
        return f"{path}: there is no such file, and its folder is missing too; {folder} exists."
    names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    similar = difflib.get_close_matches(path.name, names, n=3, cutoff=0.5)
    if similar:
        return f"{path}: there is no such file. Similar names are: {', '.join(similar)}."
    if not names:
        return f"{path}: there is no such file; its folder is empty."
    return f"{path}: there is no such file. The folder {folder} has: {listing(names, 5)}."
