"""Rules written as code, read back: only the functions in `RULES` are called, nothing else is run."""

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from foveate.attention.check import refusal
from foveate.suggestion import did_you_mean


def read(text: str) -> Any:
    """The rule that prints as `text`."""
    return _Reader(text).rule()


@dataclass(frozen=True)
class _Reader:
    text: str

    def rule(self) -> Any:
        if not isinstance(self.text, str):
            raise refusal("text", self.text, 'A rule is parsed from the code that makes it, such as "causal()".')
        if len(self.text) > LONGEST:
            raise ValueError(
                f"a visibility rule of {len(self.text):,} characters is not read; {LONGEST:,} are the most."
            )
        _require_shallow(self.text)
        try:
            return self._rule(ast.parse(self.text.strip(), mode="eval").body)
        except (SyntaxError, TypeError, OverflowError, MemoryError, RecursionError) as error:
            raise ValueError(
                f"{self._shown} cannot be read as a visibility rule: {str(error).rstrip('.')}. {_EXAMPLE}"
            ) from error

    @property
    def _shown(self) -> str:
        return repr(self.text if len(self.text) <= 200 else f"{self.text[:200]}…")

    def _rule(self, node: ast.expr) -> Any:
        match node:
            case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
                return self._rule(left) & self._rule(right)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._rule(left) | self._rule(right)
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return ~self._rule(operand)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=keywords) if name in RULES:
                named = {keyword.arg: _literal(keyword.value) for keyword in keywords if keyword.arg is not None}
                return RULES[name](*map(_literal, arguments), **named)
            case ast.Call(func=ast.Name(id=name)):
                raise ValueError(
                    f"there is no visibility rule {name!r}.{did_you_mean(name, RULES)} "
                    f"Choose one of: {', '.join(RULES)}."
                )
        raise ValueError(f"{ast.unparse(node)!r} is not a visibility rule. {_EXAMPLE}")


LARGEST = 2**53
"""Positions are 64 bits wide, and window edges are added to them."""


def _require_shallow(text: str) -> None:
    """Python's parser and every rule that is made of rules go as deep as the text is nested: it may not be deep."""
    depth = joined = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        joined += character in "&|~"
        if depth > DEEPEST or joined > DEEPEST:
            raise ValueError(
                f"a visibility rule of more than {DEEPEST} parts within each other is not read. {_EXAMPLE}"
            )


LONGEST, DEEPEST = 1_000_000, 100
"""Characters of a rule, and rules within each other. Edges and lengths, which are lists, may be long."""
RULES: dict[str, Callable[..., Any]] = {}
"""What each name makes: the package of rules fills it, because rules are read back by what this file says."""
_EXAMPLE = 'Write one as code: "causal() & window(left=128, right=0)".'


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
