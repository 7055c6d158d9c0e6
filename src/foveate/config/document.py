"""Reads JSON from a file or a request strictly, and refuses everything that is ambiguous."""

import json
import math
from typing import Any

DEEPEST = 100
"""The maximum depth of tables and lists. Ours have fewer than ten levels; many more would exhaust Python's stack."""


def parse_json(content: bytes | str) -> Any:
    """The value of a JSON text.

    >>> parse_json(b'{"steps": 2000}')
    {'steps': 2000}
    >>> parse_json('{"steps": 1, "steps": 2}')
    Traceback (most recent call last):
    ValueError: 'steps' occurs twice

    Raises ValueError with the reason: not UTF-8, not JSON, a name twice in one table, numbers that are not finite, half
    of a surrogate pair, more than 100 levels.
    """
    try:
        text = content if isinstance(content, str) else content.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_table, parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise ValueError(f"it has more than {DEEPEST} levels") from None
    _require_sound(value, surrogates="\\ud" in text or "\\uD" in text)
    return value


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names: set[str] = set()
        twice = next(name for name, _ in pairs if name in names or names.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"{twice!r} occurs twice")
    return table


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def _require_sound(value: Any, *, surrogates: bool) -> None:
    """Check a value without recursion."""
    level, inside = 0, [value]
    while inside:
        if level > DEEPEST:
            raise ValueError(f"it has more than {DEEPEST} levels")
        level += 1
        below: list[Any] = []
        for part in inside:
            if isinstance(part, dict):
                below += part.values()
                below += part if surrogates else ()
            elif isinstance(part, list):
                below += part
            elif isinstance(part, float):
                if not math.isfinite(part):
                    raise ValueError("it has a number that is too large")
            elif surrogates and isinstance(part, str) and not _is_whole(part):
                raise ValueError("a text has half of a surrogate pair, which is not a character")
        inside = below


def _is_whole(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
