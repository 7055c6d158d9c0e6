"""Converts configurations to plain data and to commented TOML."""

import dataclasses
import textwrap
import typing
from typing import Any, Literal

from foveate.config.field import dataclasses_in, defaults_of, help_for, hints_of, is_choice, is_written, kind_of
from foveate.config.toml import inline, key_text, shown


def to_dict(value: Any) -> dict[str, Any]:
    """Nested plain data for JSON, from which `build` makes an equal configuration."""
    return _plain(type(value), value)


def to_toml(value: Any, *, comments: bool = True) -> str:
    """A TOML file from which `read_toml` and `build` make an equal configuration, with a comment for each key."""
    return "\n".join(_toml_table(type(value), value, (), comments)).strip("\n") + "\n"


def _plain(annotation: Any, value: Any) -> Any:
    """The plain data of a value with this annotation."""
    if isinstance(value, (tuple, list)):
        inner = [member for member in typing.get_args(_tuple_in(annotation)) if member is not Ellipsis] or [Any]
        return [_plain(inner[min(i, len(inner) - 1)], part) for i, part in enumerate(value)]
    if is_written(type(value)):
        return repr(value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    cls: type = type(value)
    hints = hints_of(cls)
    result = {"kind": _kind_in(annotation, cls)} if is_choice(annotation) else {}
    for field in dataclasses.fields(cls):
        if field.init:
            result[field.name] = _plain(hints[field.name], getattr(value, field.name))
    return result


def _tuple_in(annotation: Any) -> Any:
    """The tuple of `tuple[...] | None`."""
    return next((member for member in typing.get_args(annotation) if typing.get_origin(member) is tuple), annotation)


def _kind_in(annotation: Any, cls: type) -> str:
    return kind_of(cls) if cls in dataclasses_in(annotation) else f"{cls.__module__}:{cls.__qualname__}"


def _toml_table(annotation: Any, value: Any, path: tuple[str, ...], comments: bool) -> list[str]:
    """Lines of a table: its own keys first, then its tables."""
    cls: type = type(value)
    hints = hints_of(cls)
    lines = [f"[{'.'.join(map(key_text, path))}]"] if path else []
    if is_choice(annotation):
        kinds = ", ".join(f'"{kind_of(member)}"' for member in dataclasses_in(annotation))
        lines += [f"# one of {kinds}"] * comments + [f"kind = {inline(_kind_in(annotation, cls))}"]
    tables: list[str] = []
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        part, about = getattr(value, field.name), _comment(cls, field, hints[field.name]) if comments else []
        if dataclasses.is_dataclass(part) and not is_written(type(part)):
            tables += ["", *about, *_toml_table(hints[field.name], part, (*path, field.name), comments)]
        elif part is not None:
            lines += [*about, f"{key_text(field.name)} = {inline(_plain(hints[field.name], part))}"]
        elif defaults_of(cls).get(field.name, ...) is not None:
            lines += [*about, f'{key_text(field.name)} = "none"']
        elif comments:
            lines += [*about, f'# {key_text(field.name)} = "none"']
    return lines + tables


def _comment(cls: type, field: "dataclasses.Field[Any]", annotation: Any) -> list[str]:
    text = help_for(cls, field.name)
    choices = [c for a in (annotation, *typing.get_args(annotation)) for c in typing.get_args(a) if _is_literal(a)]
    choices = choices or _kinds_left_out(annotation)
    if choices:
        text = f"{text.rstrip('.')}{'; ' if text else ''}one of {', '.join(map(shown, choices))}"
    return [f"# {line}" for line in textwrap.wrap(text, 110)]


def _kinds_left_out(annotation: Any) -> list[str]:
    """The kinds of an optional value or of a list's elements, which are tables and therefore not in the file."""
    parts = typing.get_args(annotation)
    element = parts[0] if typing.get_origin(annotation) is tuple and parts else annotation
    if element is annotation and type(None) not in parts:
        return []
    return [kind_of(member) for member in dataclasses_in(element) if not is_written(member)]


def _is_literal(annotation: Any) -> bool:
    return typing.get_origin(annotation) is Literal
