"""JSON from a file or a request, read strictly: what two readers could understand differently is refused."""

import json
import math
from typing import Any

DEEPEST = 100
"""Tables and lists within each other. None of ours has ten; many more end Python's stack where they are visited."""


def parse_json(content: bytes | str) -> Any:
    """The value of a JSON text.

    >>> parse_json(b'{"steps": 2000}')
    {'steps': 2000}
    >>> parse_json('{"steps": 1, "steps": 2}')
    Traceback (most recent call last):
    ValueError: 'steps' stands there twice

    Raises ValueError, with the reason: no UTF-8, no JSON, a name twice in one table, numbers that are not finite, half
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
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"{twice!r} stands there twice")
    return table


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def _require_sound(value: Any, *, surrogates: bool) -> None:
    """Goes through the value without calling itself."""
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
                    raise ValueError("it has a number beyond all bounds")
            elif surrogates and isinstance(part, str) and not _is_whole(part):
                raise ValueError("a text has half of a surrogate pair, which is no character")
        inside = below


def _is_whole(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
