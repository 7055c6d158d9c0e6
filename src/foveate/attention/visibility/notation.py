"""Rules written as code, read back: only the rules named here are called, nothing else is run."""

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass

from foveate.attention.refusal import refusal
from foveate.attention.visibility.edge import edges
from foveate.attention.visibility.grid import neighbourhood
from foveate.attention.visibility.pattern import bigbird, longformer, sparse
from foveate.attention.visibility.rule import Visibility, everything, nothing
from foveate.attention.visibility.segment import padding, prefix, same_segment
from foveate.attention.visibility.sparse import block, chunk, global_tokens, random_blocks, summary
from foveate.attention.visibility.window import around, causal, dilated, window
from foveate.suggestion import did_you_mean


def read(text: str) -> Visibility:
    """The rule that prints as `text`."""
    return _Reader(text).rule()


@dataclass(frozen=True)
class _Reader:
    text: str

    def rule(self) -> Visibility:
        if not isinstance(self.text, str):
            raise refusal("text", self.text, 'A rule is parsed from the code that makes it, such as "causal()".')
        try:
            return self._rule(ast.parse(self.text.strip(), mode="eval").body)
        except (SyntaxError, TypeError) as error:
            raise ValueError(
                f"{self.text!r} cannot be read as a visibility rule: {str(error).rstrip('.')}. {_EXAMPLE}"
            ) from error

    def _rule(self, node: ast.expr) -> Visibility:
        match node:
            case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
                return self._rule(left) & self._rule(right)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._rule(left) | self._rule(right)
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return ~self._rule(operand)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=keywords) if name in _RULES:
                named = {keyword.arg: _literal(keyword.value) for keyword in keywords if keyword.arg is not None}
                return _RULES[name](*map(_literal, arguments), **named)
            case ast.Call(func=ast.Name(id=name)):
                raise ValueError(
                    f"there is no visibility rule {name!r}.{did_you_mean(name, _RULES)} There are: {', '.join(_RULES)}."
                )
        raise ValueError(f"{ast.unparse(node)!r} is no visibility rule. {_EXAMPLE}")


_RULES: dict[str, Callable[..., Visibility]] = {
    rule.__name__: rule
    for rule in (
        everything,
        nothing,
        causal,
        window,
        dilated,
        around,
        padding,
        prefix,
        same_segment,
        block,
        chunk,
        summary,
        global_tokens,
        random_blocks,
        longformer,
        bigbird,
        sparse,
        neighbourhood,
        edges,
    )
}
_EXAMPLE = 'Write one as code: "causal() & window(left=128, right=0)".'


def _literal(node: ast.expr) -> object:
    """A number, a text, a list of them, or math.inf."""
    if ast.unparse(node) == "math.inf":
        return math.inf
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise ValueError(f"{ast.unparse(node)!r} is no number, text or list of them") from error
