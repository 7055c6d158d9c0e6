"""Rules written as code, read back: only the functions in `RULES` are called, nothing else is run."""

import ast
import math
from collections.abc import Callable
from typing import Any

from foveate.attention.check import refusal
from foveate.suggestion import did_you_mean

RULES: dict[str, Callable[..., Any]] = {}
"""The function of each name. The package of rules fills this table, because its rules import this file."""
LONGEST, DEEPEST = 1_000_000, 100
"""Characters of a rule, and rules within each other. Edges and lengths, which are lists, may be long."""
LARGEST = 2**53
"""Positions are 64 bits wide, and window edges are added to them."""
_EXAMPLE = 'Write one as code: "causal() & window(left=128, right=0)".'


def read(text: object) -> Any:
    """The rule that prints as `text`."""
    if not isinstance(text, str):
        raise refusal("text", text, 'A rule is parsed from the code that makes it, such as "causal()".')
    if len(text) > LONGEST:
        raise ValueError(f"a visibility rule of {len(text):,} characters is not read; {LONGEST:,} are the most.")
    _require_shallow(text)
    try:
        return _rule(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, TypeError, OverflowError, MemoryError, RecursionError) as error:
        shown = repr(text if len(text) <= 200 else f"{text[:200]}…")
        reason = str(error).rstrip(".")
        raise ValueError(f"{shown} cannot be read as a visibility rule: {reason}. {_EXAMPLE}") from error


def _require_shallow(text: str) -> None:
    """Raise ValueError for deep nesting: Python's parser and combined rules recurse as deeply as a text is nested."""
    depth = joined = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        joined += character in "&|~"
        if depth > DEEPEST or joined > DEEPEST:
            raise ValueError(
                f"a visibility rule of more than {DEEPEST} parts within each other is not read. {_EXAMPLE}"
            )


def _rule(node: ast.expr) -> Any:
    match node:
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            return _rule(left) & _rule(right)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _rule(left) | _rule(right)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return ~_rule(operand)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=keywords) if name in RULES:
            named = {keyword.arg: _literal(keyword.value) for keyword in keywords if keyword.arg is not None}
            return RULES[name](*map(_literal, arguments), **named)
        case ast.Call(func=ast.Name(id=name)):
            hint = did_you_mean(name, RULES)
            raise ValueError(f"there is no visibility rule {name!r}.{hint} Choose one of: {', '.join(RULES)}.")
    raise ValueError(f"{ast.unparse(node)!r} is not a visibility rule. {_EXAMPLE}")


def _literal(node: ast.expr) -> object:
    """A number, a text, a list of them, or math.inf."""
    if ast.unparse(node) == "math.inf":
        return math.inf
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{ast.unparse(node)!r} is not a number, a text or a list of them") from error
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and type(part.value) is int and part.value > LARGEST:
            raise ValueError(f"{part.value} is not a position: {LARGEST} is the largest")
    return value
