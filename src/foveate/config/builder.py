"""Converts plain data to configurations, with one set of messages."""

import contextlib
import dataclasses
import importlib
import math
import os
import re
import shlex
import sys
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal, TypeVar, cast

from foveate.config.field import dataclasses_in, defaults_of, help_for, hints_of, is_written, kind_of
from foveate.config.toml import shown
from foveate.errors import UsageError
from foveate.suggestion import did_you_mean

T = TypeVar("T")
_PERMITTED: ContextVar[frozenset[str]] = ContextVar("_PERMITTED", default=frozenset())
"""Modules that `permit` names. A new thread, as those of the viewer's server, begins without them."""


@contextlib.contextmanager
def permit(*modules: str) -> Iterator[None]:
    """Within this context, the configuration of a run may name classes of exactly these modules of the user's."""
    token = _PERMITTED.set(_PERMITTED.get() | set(modules))
    try:
        yield
    finally:
        _PERMITTED.reset(token)


def modules_in(settings: Any) -> list[str]:
    """The modules whose classes a configuration, as plain data, names by "module:Class"."""
    if isinstance(settings, Mapping):
        kind = settings.get("kind")
        own = [kind.partition(":")[0]] if isinstance(kind, str) and ":" in kind else []
        return list(dict.fromkeys([*own, *modules_in(list(settings.values()))]))
    if isinstance(settings, list | tuple):
        return list(dict.fromkeys(module for part in settings for module in modules_in(part)))
    return []


def build(cls: type[T], mapping: Mapping[str, Any], *, where: str = "", imports: bool = False) -> T:
    """Makes the configuration `cls`, a frozen dataclass, from nested plain data. Missing keys have their defaults.

    Fields may be bool, int, float, str, Literal, tuples, tables, dataclasses, `X | None` and unions of dataclasses,
    selected by `kind`: the class name in snake case without "Config" (`ScaledDot` is "scaled_dot"). A protocol in a
    union says what a user's class must have. `where` is the
    dotted path at the beginning of messages, or a place that ends with a colon ("run.toml:"). Only with `imports`, for
    local files, a kind may name a user's class as "module:Class".

    >>> @dataclasses.dataclass(frozen=True, kw_only=True)
    ... class Decoder:
    ...     beam: int = 4
    >>> build(Decoder, {"beam": 8})
    Decoder(beam=8)
    >>> build(Decoder, {"baem": 8}, where="decode")
    Traceback (most recent call last):
    foveate.errors.UsageError: decode.baem is not a setting. Did you mean 'beam'? The settings are: beam.

    Raises UsageError with the dotted path, the expected and the actual value.
    """
    return cast(T, _Builder(imports).convert(cls, mapping, where))


def chosen(cls: type, name: str, value: Any) -> Any:
    """The value of a configuration's field, from an object, the name of a kind or its settings.

    Raises UsageError with the available kinds for anything else.
    """
    if isinstance(value, tuple | list):
        (annotation, *_) = typing.get_args(hints_of(cls)[name])
        return tuple(_one(annotation, each, f"{name}[{place}]") for place, each in enumerate(value))
    return _one(hints_of(cls)[name], value, name)


def _one(annotation: Any, value: Any, where: str) -> Any:
    ready = value is None or is_written(type(value)) or (hasattr(value, "build") and not isinstance(value, type))
    return value if ready else _Builder(False).convert(annotation, value, where)


@dataclasses.dataclass(frozen=True)
class _Builder:
    """Converts plain data to annotated types; `imports` allows users' classes."""

    imports: bool

    def convert(self, annotation: Any, value: Any, where: str, default: Any = None) -> Any:
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if annotation is Any:
            return value
        if origin in (typing.Union, types.UnionType):
            return self._union(arguments, value, where, default)
        if origin is Literal:
            return _literal(arguments, value, where)
        if origin is tuple:
            return self._tuple(arguments, value, where)
        if origin is Sequence:
            return self._tuple((*arguments, Ellipsis), value, where)
        if origin in (dict, Mapping):
            return self._mapping(arguments[1], value, where)
        if is_written(annotation):
            return _read(annotation, value, where)
        if dataclasses.is_dataclass(annotation):
            return self._dataclass(cast(type, annotation), value, where, default)
        return _scalar(annotation, value, where)

    def _dataclass(
        self, cls: type, value: Any, where: str, default: Any, kinds: Mapping[str, Any] = types.MappingProxyType({})
    ) -> Any:
        """Build one dataclass; `kinds` are the alternatives, for messages."""
        if not isinstance(value, Mapping):
            kind = _kind_inside(value, cls, where)
            raise UsageError(f"{_name(where)} must be a table of settings, got {shown(value)}.{kind}")
        fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
        settings = dict(value)
        if "kind" not in fields and settings.get("kind") == kind_of(cls):
            del settings["kind"]
        for key in settings:
            if key not in fields:
                instead = (
                    (_kind_inside(settings[key], cls, where) if key == "kind" else "")
                    or _inside(str(key), cls, settings, default, where)
                    or _instead(str(key), cls, fields, kinds)
                )
                raise UsageError(f"{_join(where, str(key))} is not a setting.{instead}")
        # A default such as `Cosine(warmup=400)` keeps its warm-up if only other settings change.
        defaults = {name: getattr(default, name) for name in fields} if type(default) is cls else defaults_of(cls)
        hints, arguments = hints_of(cls), dict(defaults)
        for key, part in settings.items():
            arguments[key] = self.convert(hints[key], part, _join(where, key), defaults.get(key))
        for name in fields:
            if name not in arguments:
                about = help_for(cls, name)
                raise UsageError(f"{_join(where, name)} is missing{f': {about}' if about else ''}. Give it a value.")
        try:
            return cls(**arguments)
        except ValueError as error:
            raise UsageError(_located(str(error), where, fields)) from error

    def _union(self, members: tuple[Any, ...], value: Any, where: str, default: Any) -> Any:
        if type(None) in members and (value is None or value == "none"):
            return None
        protocols = [member for member in members if getattr(member, "_is_protocol", False)]
        members = tuple(member for member in members if member is not type(None) and member not in protocols)
        classes = [member for member in members if dataclasses.is_dataclass(member)]
        if len(members) == 1:
            named = bool(classes) and value == kind_of(members[0])
            return self.convert(members[0], {} if named else value, where, default)
        literals = [each for one in members if typing.get_origin(one) is Literal for each in typing.get_args(one)]
        kind = isinstance(value, str) and value not in literals and str not in members
        if classes and (isinstance(value, Mapping) or kind or len(classes) == len(members)):
            part = self._choice(classes, value, where, default, literals)
            if protocols and not isinstance(part, (*members, *protocols)):
                missing = ", ".join(name for name in _attributes(protocols[0]) if not hasattr(part, name))
                raise UsageError(
                    f"{_name(where)}: {type(part).__name__} lacks {missing}. Derive it from {protocols[0].__module__}."
                    f"{protocols[0].__name__}, and write what is missing."
                )
            return part
        for member in members:
            if typing.get_origin(member) is Literal and value in typing.get_args(member):
                return value
            if type(value) is member:
                return value
        if float in members and type(value) is int:
            return _scalar(float, value, where)
        raise UsageError(f"{_name(where)} must be {_expected(members)}, got {shown(value)}.")

    def _choice(self, classes: list[Any], value: Any, where: str, default: Any, literals: Sequence[Any] = ()) -> Any:
        """One of several dataclasses, by `kind`, by its name alone, or the default's class without a kind. `literals`
        are other values, for messages.
        """
        kinds = {kind_of(cls): cls for cls in classes}
        choices = ", ".join(shown(choice) for choice in (*kinds, *literals))
        if value is None and "none" in kinds:
            value = "none"
        if isinstance(value, str):
            value = {"kind": value}
        if not isinstance(value, Mapping):
            raise UsageError(f"{_name(where)} must be a table with a kind ({choices}), got {shown(value)}.")
        settings = {key: part for key, part in value.items() if key != "kind"}
        if "kind" not in value and default is not None:
            return self._dataclass(type(default), settings, where, default, kinds)
        kind = value.get("kind")
        if kind is None and "kind" in value and "none" in kinds:
            kind = "none"
        if isinstance(kind, str) and ":" in kind:
            return self._dataclass(self._imported(kind, where), settings, where, default)
        if kind is None:
            raise UsageError(f"{_join(where, 'kind')} is missing. Choose one of: {choices}.")
        if not isinstance(kind, str) or kind not in kinds:
            raise UsageError(
                f"{_join(where, 'kind')} cannot be {shown(kind)}.{did_you_mean(str(kind), kinds)} "
                f"Choose one of: {choices}."
            )
        return self._dataclass(kinds[kind], settings, where, default, kinds)

    def _imported(self, kind: str, where: str) -> type:
        place, (module, _, name) = _join(where, "kind"), kind.partition(":")
        if not name or not all(module.split(".")):
            raise UsageError(f"{place}: '{kind}' does not name a class. Write it as module:Class, like my_parts:Score.")
        if not self.imports and module not in _PERMITTED.get():
            raise UsageError(
                f"{place}: '{kind}' names a class to import, which runs its code. Your TOML files and --set may do "
                f"that, but not a checkpoint or a request. If you trust that module, add --import "
                f"{shlex.quote(module)} to the command, or in Python load the run within "
                f"`with foveate.config.permit({module!r}):`."
            )
        try:
            imported = getattr(_import(module), name)
        except ImportError as error:
            raise UsageError(
                f"{place}: cannot import '{module}' ({error}). "
                f"Run from the folder that contains {module}.py, or install it."
            ) from error
        except AttributeError:
            raise UsageError(f"{place}: the module '{module}' has no '{name}'.") from None
        if not (isinstance(imported, type) and dataclasses.is_dataclass(imported)):
            raise UsageError(
                f"{place}: '{kind}' is not a dataclass. Decorate it with @dataclass(frozen=True, kw_only=True)."
            )
        return imported

    def _mapping(self, annotation: Any, value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise UsageError(f"{_name(where)} must be a table, got {shown(value)}.")
        return {str(key): self.convert(annotation, part, _join(where, str(key))) for key, part in value.items()}

    def _tuple(self, arguments: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise UsageError(f"{_name(where)} must be a list, got {shown(value)}.")
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            arguments = (arguments[0],) * len(value)
        if len(arguments) != len(value):
            raise UsageError(f"{_name(where)} must be a list of {len(arguments)}, got {len(value)}: {shown(value)}.")
        parts = enumerate(zip(arguments, value, strict=True))
        return tuple(self.convert(annotation, part, f"{where}[{i}]") for i, (annotation, part) in parts)


def _inside(key: str, cls: type, settings: Mapping[str, Any], default: Any, where: str) -> str:
    """A suggestion of the tables in this one that have a setting of this name."""
    defaults = defaults_of(cls) if type(default) is not cls else vars(default)
    path, paths = "" if where.endswith(":") else where.rpartition(": ")[2], []
    for name, annotation in hints_of(cls).items():
        classes: list[Any] = [member for member in _members(annotation) if dataclasses.is_dataclass(member)]
        value = settings.get(name)
        kind = value.get("kind") if isinstance(value, Mapping) else value
        here: Any = next((one for one in classes if kind_of(one) == kind), type(defaults.get(name)))
        if dataclasses.is_dataclass(here) and key in {field.name for field in dataclasses.fields(here)}:
            paths.append(_join(_join(path, name), key))
    return f" Did you mean {' or '.join(paths)}?" if paths else ""


def _kind_inside(value: Any, cls: type, where: str) -> str:
    """A suggestion for a table without kinds: its parts that have kinds, and those with the kind `value`."""
    choices = {name: [kind_of(one) for one in dataclasses_in(hint)] for name, hint in hints_of(cls).items()}
    choices = {name: kinds for name, kinds in choices.items() if len(kinds) > 1}
    if not isinstance(value, str) or not choices:
        return ""
    path = "" if where.endswith(":") else where.rpartition(": ")[2]
    matches = [f"{_join(path, name)}={value}" for name, kinds in choices.items() if value in kinds]
    listed = [f"{_join(path, name)} ({', '.join(kinds)})" for name, kinds in choices.items()]
    hint = f" Did you mean {' or '.join(matches)}?" if matches else ""
    return f"{hint} This table does not have kinds, but its parts do: {'; '.join(listed)}."


def _attributes(protocol: Any) -> list[str]:
    """The attributes that a protocol requires."""
    return sorted({name for name in (*vars(protocol), *protocol.__annotations__) if not name.startswith("_")})


def _members(annotation: Any) -> tuple[Any, ...]:
    """The types that a value may have."""
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return typing.get_args(annotation) if union else (annotation,)


def _instead(key: str, cls: type, fields: Iterable[str], kinds: Mapping[str, Any]) -> str:
    """A suggestion of a similar setting, or of the kinds that have this one."""
    elsewhere = [kind for kind, other in kinds.items() if key in {field.name for field in dataclasses.fields(other)}]
    if elsewhere:
        others = " and ".join(f'"{kind}"' for kind in elsewhere)
        has = "has" if len(elsewhere) == 1 else "have"
        hint = f' The kind is "{kind_of(cls)}", but only {others} {has} this setting.'
    else:
        hint = did_you_mean(key, fields)
    names = ", ".join(fields)
    return f"{hint} The settings are: {names}." if names else f"{hint} It does not have settings."


LARGEST = 2**63 - 1
"""Tensors, files and the C library do not support larger whole numbers."""
_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def _scalar(annotation: Any, value: Any, where: str) -> Any:
    if annotation not in _NAMES:
        raise TypeError(f"{_name(where)}: a configuration cannot have a field of type {annotation}")
    if type(value) is int and abs(value) > LARGEST and annotation in (int, float):
        raise UsageError(f"{_name(where)} must be a number of at most 64 bits, got {shown(value)}.")
    if annotation is float and type(value) is int:
        value = float(value)
    if type(value) is not annotation:
        hint = f' Write it in quotes: "{value}".' if annotation is str and type(value) in (int, float) else ""
        raise UsageError(f"{_name(where)} must be {_NAMES[annotation]}, got {shown(value)}.{hint}")
    if annotation is float and not math.isfinite(value):
        raise UsageError(f"{_name(where)} must be a finite number, got {value}.")
    return value


def _read(cls: Any, value: Any, where: str) -> Any:
    """A value of a class that parses text."""
    if not isinstance(value, str):
        raise UsageError(f"{_name(where)} must be text, got {shown(value)}.")
    try:
        return cls.parse(value)
    except ValueError as error:
        raise UsageError(_located(str(error), where, ())) from error


def _literal(choices: tuple[Any, ...], value: Any, where: str) -> Any:
    for choice in choices:
        if type(choice) is type(value) and choice == value:
            return value
    hint = did_you_mean(value, [c for c in choices if isinstance(c, str)]) if isinstance(value, str) else ""
    raise UsageError(f"{_name(where)} cannot be {shown(value)}.{hint} Choose one of: {', '.join(map(shown, choices))}.")


def _expected(members: Iterable[Any]) -> str:
    names = []
    for member in members:
        literal = typing.get_origin(member) is Literal
        names += [shown(choice) for choice in typing.get_args(member)] if literal else [_NAMES.get(member, "a table")]
    return " or ".join(dict.fromkeys(names))


def _name(where: str) -> str:
    return where.rstrip(":") or "The configuration"


def _join(where: str, key: str) -> str:
    if not where:
        return key
    return f"{where} {key}" if where.endswith(":") else f"{where}.{key}"


def _located(message: str, where: str, fields: Iterable[str]) -> str:
    """The message of a `__post_init__` after its dotted path, which includes the field if the message begins with
    it.
    """
    message = message if message.endswith((".", "?", "!")) else message + "."
    first = re.split(r"\W", message, maxsplit=1)[0]
    if first in fields:
        return _join(where, message)
    return f"{where.rstrip(':')}: {message}" if where else message


def _import(module: str) -> types.ModuleType:
    """Imports with the working folder last on the path, so that it does not hide installed modules."""
    sys.path.append(os.getcwd())
    try:
        return importlib.import_module(module)
    finally:
        sys.path.pop()
