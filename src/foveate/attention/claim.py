"""The facts that a part states about itself, and whether they are still true of what it computes.

A score, a bias, a normaliser or a transform may state facts by attributes and methods: `by_pair`, `symbol`, `header`,
`onnx` … A fact is true of the class that states it. A subclass that computes something else, and a hooked module, must
state it again.
"""

from functools import cached_property, lru_cache
from typing import Any

from torch import nn


def claim(part: object, name: str, default: Any = None) -> Any:
    """The attribute `name` of a part; the default where the part has none, or computes something else than the class
    that states it.

    >>> from foveate.attention import Alibi
    >>> class Steeper(Alibi):
    ...     def __call__(self, at):
    ...         return 2 * super().__call__(at)
    >>> claim(Alibi(2), "by_pair"), claim(Steeper(2), "by_pair"), claim(None, "by_pair", default="nothing")
    (True, None, 'nothing')
    """
    kind: Any = type(part)
    own = getattr(part, "__dict__", {})
    if part is None or is_hooked(part):
        return default
    if name not in own and (not _covers(kind, name) or not _methods(kind).isdisjoint(own)):
        return default
    return getattr(part, name, default)


def restriction(part: object, name: str, about: tuple[str, ...] = ()) -> bool:
    """A fact that forbids something to whoever runs the part, such as `undivided`. It holds for hooked modules and for
    subclasses, too, unless they state otherwise or override one of the methods that it is about.
    """
    stated = name in getattr(part, "__dict__", ()) or follows(part, about, (name,))
    return stated and bool(getattr(part, name, False))


def condition(part: object) -> tuple[object, ...]:
    """Values that change when a part is hooked, parametrised or given another method. Reading them takes a fraction
    of the time of reading what the part states, so that a choice that was made for a part may be compared at every
    call.
    """
    kind = type(part)
    return kind, len(kind.__dict__), len(getattr(part, "__dict__", ())), is_hooked(part)


@lru_cache(maxsize=4096)
def _covers(kind: Any, name: str) -> bool:
    """Whether the first class that states the fact is also the first that computes anything."""
    for base in kind.__mro__:
        if name in vars(base):
            return True
        if any(_computes(member, value) for member, value in vars(base).items()):
            return False
    return False


@lru_cache(maxsize=4096)
def _methods(kind: Any) -> frozenset[str]:
    """The names of the members that an object computes by its class: a member that is put into the object takes its
    place. Fields of a dataclass are always in the object.
    """
    members = {name for base in kind.__mro__[:-1] for name, value in vars(base).items() if _computes(name, value)}
    return frozenset(members - {"__call__"} - getattr(kind, "__dataclass_fields__", {}).keys())


def _computes(name: str, value: object) -> bool:
    return (name == "__call__" or not name.startswith("__")) and (callable(value) or isinstance(value, COMPUTED))


COMPUTED = (property, cached_property, classmethod, staticmethod)
"""Members of a class that compute something without being functions."""


def follows(part: object, whole: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    """Whether no class that stands before those which define the parts defines the whole: what is overridden in a
    subclass no longer follows from parts that are inherited.
    """
    return min(_depth(type(part), whole)) >= min(_depth(type(part), parts))


def describes(part: object, name: str, about: tuple[str, ...]) -> bool:
    """Whether what a part says of itself by the method `name` still describes what these methods compute: no subclass
    overrides one of them without it, no hook changes a module, and none was put into the object.
    """
    kind, own = type(part), getattr(part, "__dict__", {})
    for each in about:
        if each in own:
            return False
    methods = tuple([getattr(kind, each, None) for each in about])  # one may be put into a class later
    answer = _DESCRIBED.get((kind, name, methods))
    if answer is None:
        if len(_DESCRIBED) >= CLASSES:
            _DESCRIBED.clear()
        answer = _DESCRIBED[kind, name, methods] = follows(part, about, (name,))
    return answer and not is_hooked(part)


CLASSES = 1024
"""The number of classes for which the answers of `describes` are remembered."""
_DESCRIBED: dict[tuple[type, str, tuple[object, ...]], bool] = {}


def _depth(kind: type, names: tuple[str, ...]) -> list[int]:
    """The number of steps back in the inheritance to the class that defines each method."""
    places = (next((i for i, base in enumerate(kind.__mro__) if name in vars(base)), None) for name in names)
    return [place for place in places if place is not None] or [len(kind.__mro__)]


def is_hooked(part: object) -> bool:
    """Whether calling a module does more than its class says."""
    if not isinstance(part, nn.Module):
        return False
    own = part.__dict__
    return bool(own) and bool(
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
        or "forward" in own
    )
