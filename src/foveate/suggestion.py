"""Words of messages: what the user may have meant, and how many there are."""

import difflib
from collections.abc import Iterable
from pathlib import Path


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """A question with the most similar choice, and a space before it; nothing when none is similar.

    >>> did_you_mean("droput", ["dropout", "seed"])
    " Did you mean 'dropout'?"
    >>> did_you_mean("beam", ["dropout", "seed"])
    ''
    """
    similar = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.6)
    return f" Did you mean {similar[0]!r}?" if similar else ""


def counted(count: int, noun: str) -> str:
    """How many there are, in words.

    >>> counted(1, "pair"), counted(12000, "pair"), counted(2, "hypothesis")
    ('1 pair', '12,000 pairs', '2 hypotheses')
    """
    many = f"{noun.removesuffix('is')}es" if noun.endswith("is") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else many}"


def missing_file(path: Path) -> str:
    """A sentence on a file that is not there: the similar names in its folder, or the folder that is missing."""
    folder = path.parent
    if not folder.is_dir():
        while not folder.is_dir() and folder != folder.parent:
            folder = folder.parent
        return f"{path}: there is no such file, nor its folder; {folder} is the last that exists."
    names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    similar = difflib.get_close_matches(path.name, names, n=3, cutoff=0.5)
    if similar:
        return f"{path}: there is no such file. The nearest names there are: {', '.join(similar)}."
    if not names:
        return f"{path}: there is no such file; its folder is empty."
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"{path}: there is no such file. The folder {folder} has: {shown}."
