"""A faster way to check the shapes of calls in tests, in place of jaxtyping's. Its laws are in laws/test_type.py."""

import dataclasses
import functools
import inspect
import threading
import types
import typing
from collections import Counter
from collections.abc import Callable
from typing import Any

import beartype.roar
import jaxtyping

jaxtyped = jaxtyping.jaxtyped
shapes_of_a_call = jaxtyped("context")
local = threading.local()
checkers: dict[Any, Callable[..., Any]] = {}
FIRST, STEP, ENOUGH = 20, 20, 1_000
"""The calls of a function that each test checks: the first ones, then each twentieth, up to a number. Laws call some
functions a hundred thousand times.
"""
calls = Counter[types.CodeType]()
"""The calls in the present test."""


def _checked(target: Any, typechecker: Callable[..., Any]) -> Any:
    """What jaxtyping's `jaxtyped` does, in a fraction of its time: parameters are checked once and not twice, and a
    function that another one defines in each of its calls does not get a new checker each time.
    """
    if inspect.isclass(target):
        if dataclasses.is_dataclass(target) and not hasattr(target.__init__, "__wrapped__"):
            target.__init__ = _checked(target.__init__, typechecker)  # type: ignore[misc]
        return target
    slowly = functools.partial(jaxtyped, target, typechecker=typechecker)
    if inspect.isgeneratorfunction(target) or inspect.iscoroutinefunction(target):
        return slowly()
    try:
        checker = _checker(target, typechecker)
    except Exception:
        return slowly()

    code = target.__code__

    @functools.wraps(target)
    def call(*arguments: Any, **keywords: Any) -> Any:
        __tracebackhide__ = True
        number = calls[code]
        if number >= ENOUGH or jaxtyping.config.jaxtyping_disable:
            return target(*arguments, **keywords)
        calls[code] = number + 1
        if number >= FIRST and number % STEP:
            return target(*arguments, **keywords)
        try:
            with shapes_of_a_call:
                return checker(*arguments, **keywords)
        except beartype.roar.BeartypeCallHintViolation as violation:
            slowly()(*arguments, **keywords)  # it says which shapes do not agree
            # The second call had another answer, or looked at another item of a list.
            raise jaxtyping.TypeCheckError(f"Type-check error: {violation}") from violation

    return call


def _checker(target: Any, typechecker: Callable[..., Any]) -> Callable[..., Any]:
    """The function with checks. Raises what is wrong with its types, such as names that are defined later."""
    if "<locals>" not in target.__qualname__:
        typing.get_type_hints(target, include_extras=True)
        return typechecker(target)
    key = (target.__code__, *target.__annotations__.items())
    if key not in checkers:
        typing.get_type_hints(target, include_extras=True)

        @functools.wraps(target)
        def stand_in(*arguments: Any, **keywords: Any) -> Any:
            return local.targets.pop()(*arguments, **keywords)

        checkers[key] = typechecker(stand_in)
    checker = checkers[key]

    def call(*arguments: Any, **keywords: Any) -> Any:
        targets = local.__dict__.setdefault("targets", [])
        depth = len(targets)
        targets.append(target)
        try:
            return checker(*arguments, **keywords)
        finally:
            del targets[depth:]

    return call


def use() -> None:
    """Check shapes in this way in all modules that are imported from now on."""
    jaxtyping.jaxtyped = lambda *, typechecker: functools.partial(_checked, typechecker=typechecker)
