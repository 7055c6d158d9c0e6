"""The metadata of a configuration class: its fields' types, defaults and documentation, and its `kind`."""

import ast
import dataclasses
import functools
import inspect
import itertools
import re
import textwrap
import types
import typing
from typing import Any, TypeVar, cast

from foveate.suggestion import did_you_mean

T = TypeVar("T")


def setting(default: T, help: str) -> T:
    """A field of a configuration with its default and its documentation.

    `steps: int = setting(10_000, "updates to make")`
    """
    return dataclasses.field(default=default, metadata={"help": help})


def require_counts(settings: Any, *names: str) -> None:
    """Raises ValueError for a setting that counts something and is less than 1. None counts nothing."""
    for name in names:
        count = getattr(settings, name)
        if count is not None and count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")


def require_choices(settings: Any) -> None:
    """Raises ValueError for a setting that its type's list of values lacks, which `build` refuses in files.

    >>> @dataclasses.dataclass
    ... class Words:
    ...     order: typing.Literal["rising", "falling"] = "rising"
    >>> require_choices(Words())
    >>> require_choices(Words("fallin"))
    Traceback (most recent call last):
    ValueError: order cannot be 'fallin'. Did you mean 'falling'? Choose one of: 'rising', 'falling'
    """
    cls: type = type(settings)
    for name, (choices, alone, other_texts) in _choices_of(cls).items():
        value = getattr(settings, name, None)
        if value in choices or not (alone or (isinstance(value, str) and not other_texts)):
            continue
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise ValueError(f"{name} cannot be {value!r}.{hint} Choose one of: {', '.join(map(repr, choices))}")


@functools.cache
def _choices_of(cls: type) -> dict[str, tuple[list[Any], bool, bool]]:
    """The settings with a list of values: the list, whether the type has nothing else, and whether it has any text."""
    try:
        hints = hints_of(cls)
    except NameError:  # a user's class may name types that only a type checker knows
        return _choices_of(cls.__mro__[1])
    lists = {}
    for name, annotation in hints.items():
        members = (annotation, *typing.get_args(annotation))
        literals = [member for member in members if typing.get_origin(member) is typing.Literal]
        if literals:
            choices = [choice for literal in literals for choice in typing.get_args(literal)]
            lists[name] = choices, annotation in literals, str in members
    return lists


def kind_of(cls: type) -> str:
    """The name that selects a class in a configuration.

    >>> class RNNConfig: pass
    >>> class ScaledDot: pass
    >>> kind_of(RNNConfig), kind_of(ScaledDot)
    ('rnn', 'scaled_dot')
    """
    kind = cls.__dict__.get("kind")
    if isinstance(kind, str):
        return kind
    name = cls.__name__.removesuffix("Config") or cls.__name__
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def dataclasses_in(annotation: Any) -> list[Any]:
    """The dataclasses among the members of a union."""
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return []
    return [member for member in typing.get_args(annotation) if dataclasses.is_dataclass(member)]


def is_choice(annotation: Any) -> bool:
    return len(dataclasses_in(annotation)) > 1


def is_written(annotation: Any) -> bool:
    """Whether configurations contain values of this class as text: `parse` is the inverse of `repr`."""
    return isinstance(annotation, type) and hasattr(annotation, "parse")


@functools.cache
def hints_of(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def defaults_of(cls: type) -> dict[str, Any]:
    missing = dataclasses.MISSING
    defaults = {}
    for field in dataclasses.fields(cls):
        if field.init and field.default is not missing:
            defaults[field.name] = field.default
        elif field.init and field.default_factory is not missing:
            defaults[field.name] = field.default_factory()
    return defaults


def help_for(cls: type, name: str) -> str:
    """The `help` of a field, or the string below it in the class."""
    help = next((f.metadata.get("help") for f in dataclasses.fields(cls) if f.name == name), None)
    return " ".join(str(help or _strings_below(cls).get(name, "")).split())


@functools.cache
def _strings_below(cls: type) -> dict[str, str]:
    try:
        body = cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]).body
    except (OSError, TypeError, SyntaxError):  # the source of classes in an interactive session is not available
        return {}
    strings = {}
    for field, below in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            text = below.value.value if isinstance(below.value, ast.Constant) else None
            if isinstance(text, str):
                strings[field.target.id] = text
    return strings
