"""Reads TOML files and assignments, and writes TOML values."""

import copy
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foveate.errors import UsageError
from foveate.suggestion import missing_file


def read_toml(path: Path | str) -> dict[str, Any]:
    """The plain data of a TOML file. Raises UsageError, with the line, if it is missing, not UTF-8 or not TOML."""
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")  # with or without a byte order mark
        return tomllib.loads(text)
    except FileNotFoundError:
        raise UsageError(missing_file(path)) from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: byte {error.start} is not UTF-8. Save the file as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}. Text needs quotes; true and false are lower-case.") from None


def override(mapping: Mapping[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """A copy of plain data with assignments `a.b=c`. Values are TOML, or else text; "none" is None.

    >>> override({"train": {"steps": 10}}, ["train.steps=20", "model.cell=lstm", "train.betas=[0.9, 0.98]"])
    {'train': {'steps': 20, 'betas': [0.9, 0.98]}, 'model': {'cell': 'lstm'}}

    Raises UsageError naming the assignment.
    """
    result = copy.deepcopy(dict(mapping))
    for assignment in assignments:
        path, equals, value = assignment.partition("=")
        keys = [key.strip() for key in path.split(".")]
        if not equals or not all(keys):
            raise UsageError(f"--set {assignment}: write a dotted name, = and a value, like train.steps=2000.")
        table = result
        for i, key in enumerate(keys[:-1]):
            table = table.setdefault(key, {})
            if not isinstance(table, dict):
                raise UsageError(
                    f"--set {assignment}: {'.'.join(keys[: i + 1])} is {shown(table)}, not a table of settings."
                )
        table[keys[-1]] = _parse(value.strip())
    return result


def assign(mapping: Mapping[str, Any], assignments: Sequence[str]) -> Mapping[str, Any]:
    """Assignments `a.b=c` in plain data, where `model = "luong"` may stand for a table."""
    for assignment in assignments:
        path, _, value = assignment.partition("=")
        mapping = _tables(mapping, path)
        if path.strip().endswith(".kind"):
            # Another kind has other settings: those of the kind that was there would be unknown to it.
            mapping = override(mapping, [f"{path.strip().removesuffix('.kind')}={value}"])
        else:
            mapping = override(mapping, [assignment])
    return mapping


def _tables(mapping: Mapping[str, Any], path: str) -> dict[str, Any]:
    """`model = "luong"` written out as a table, so that `model.cell` can be set in it."""
    result = dict(mapping)
    here = result
    for key in path.split(".")[:-1]:
        value = here.get(key.strip(), {})
        if not isinstance(value, (str, Mapping)):
            break  # `override` says what is wrong
        here[key.strip()] = {"kind": value} if isinstance(value, str) else dict(value)
        here = here[key.strip()]
    return result


def _parse(text: str) -> Any:
    if text == "none":
        return None
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    value = parsed["value"]
    return value if len(parsed) == 1 and isinstance(value, (str, bool, int, float, list, dict)) else text


def inline(value: Any) -> str:
    """Plain data as a TOML value on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(inline, value))}]"
    if isinstance(value, Mapping):
        parts = (f"{key_text(key)} = {inline(part)}" for key, part in value.items() if part is not None)
        return f"{{ {', '.join(parts)} }}"
    return repr(value)


def key_text(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else inline(key)


def shown(value: Any) -> str:
    """A value in TOML, shortened to a readable length."""
    if isinstance(value, Mapping):
        return "a table"
    text = inline(value) if isinstance(value, (str, bool, int, float, list, tuple)) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
