"""Variants: what differs between the things compared, as changes of one base configuration."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from foveate.config import override
from foveate.errors import UsageError

Changes = Mapping[str, Any]
"""Nested plain data that is laid over the base: a table with a `kind` replaces what was there, others join it."""


def lay_over(base: Any, change: Any) -> Any:
    """The base with a change in it.

    >>> lay_over({"model": {"kind": "luong", "dropout": 0.1}}, {"model": {"dropout": 0.2}})
    {'model': {'kind': 'luong', 'dropout': 0.2}}
    >>> lay_over({"model": {"kind": "luong", "dropout": 0.1}}, {"model": {"kind": "bahdanau"}})
    {'model': {'kind': 'bahdanau'}}
    """
    if not isinstance(change, Mapping) or "kind" in change:
        return change
    if isinstance(base, str):  # `model = "luong"`, with a change of one of its settings
        base = {"kind": base}
    if not isinstance(base, Mapping):
        return dict(change)
    return {**base, **{key: lay_over(base.get(key), part) for key, part in change.items()}}


def varied(vary: Sequence[str]) -> dict[str, Changes]:
    """Variants from `a.b=x,y,z`; of several, every combination. They are named by their values.

    >>> varied(["model.attention.score=dot,general"])
    {'dot': {'model': {'attention': {'score': 'dot'}}}, 'general': {'model': {'attention': {'score': 'general'}}}}
    >>> list(varied(["model.block.num_heads=1,8", "model.position=none,learned"]))
    ['num_heads 1, none', 'num_heads 1, learned', 'num_heads 8, none', 'num_heads 8, learned']

    Raises UsageError for any other string.
    """
    axes = [list(_axis(words)) for words in vary]
    variants: dict[str, Changes] = {}
    for combination in itertools.product(*axes):
        name = ", ".join(part for part, _ in combination)
        if name in variants:
            raise UsageError(f"--vary gives {name!r} twice. Name every value once.")
        changes: Any = {}
        for _, change in combination:
            changes = lay_over(changes, change)
        variants[name] = changes
    return variants


def _axis(words: str) -> Iterator[tuple[str, Changes]]:
    path, equals, values = words.partition("=")
    if not equals or not all(key.strip() for key in path.split(".")):
        raise UsageError(f"--vary {words}: write a setting, = and its values, like model.attention.score=dot,general.")
    choices = [value.strip() for value in _split(values)]
    if not all(choices):
        raise UsageError(f"--vary {words}: there is an empty value. Write values with one comma between.")
    path = path.strip().removesuffix(".kind")
    last = path.rpartition(".")[2]
    for value in choices:
        # "none" may be a kind, such as no positions; where it is not, building a configuration reads it as nothing.
        change = override({}, [f'{path}="none"' if value == "none" else f"{path}={value}"])
        text = re.fullmatch(r"[A-Za-z_][\w:]*", value) and value not in ("true", "false")
        name = value.strip("\"'") if text or value[0] in "\"'" else f"{last} {value}"
        yield name, change


def _split(values: str) -> list[str]:
    """Values between commas that stand outside of brackets, braces and quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in values:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "[{(":
            depth += 1
        elif letter in "]})":
            depth -= 1
        if letter == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def folder_names(names: Iterable[str]) -> dict[str, str]:
    """A folder's name for each variant: what any file system takes.

    >>> folder_names(["fixed vector", "σ = 2", "σ: 2"])
    {'fixed vector': 'fixed-vector', 'σ = 2': '2', 'σ: 2': '2-2'}
    """
    folders: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^a-z0-9_.]+", "-", name.lower()).strip("-.") or "variant"
        taken = set(folders.values())
        numbers = (plain if number == 1 else f"{plain}-{number}" for number in itertools.count(1))
        folders[name] = next(folder for folder in numbers if folder not in taken)
    return folders


def tabled(variants: Any) -> dict[str, Changes]:
    """The variants of a file. Raises UsageError unless they are tables."""
    if not isinstance(variants, Mapping) or not all(isinstance(change, Mapping) for change in variants.values()):
        raise UsageError(
            "compare.variants must be tables of settings by name, such as [compare.variants.dot] with "
            'model.attention.score = "dot" in it; an empty table is the base itself.'
        )
    return dict(variants)
