"""Who may look at whom: small immutable rules over absolute positions, combined with `&`, `|` and `~`.

True means *may look*. A rule never touches scores; the attention turns "not visible" into a weight of exactly 0.
"""

import ast
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from foveate.attention.position import Positions
from foveate.suggestion import did_you_mean


class Visibility(ABC):
    """A rule: from positions to a Bool that says, for each query and key, whether the query may look.

    The answer may leave axes of size 1 where the rule does not depend on them; it broadcasts to
    `batch heads query key`.

    >>> print((causal() & ~window(left=1, right=0)).picture(4, 4))
    . . . .
    . . . .
    # . . .
    # # . .
    >>> causal() & window(left=2, right=0)
    causal() & window(left=2, right=0)
    """

    @abstractmethod
    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads #query #key"]: ...

    @classmethod
    def parse(cls, text: str) -> "Visibility":
        """The rule that prints as `text`; only the rules of this package are called, nothing else is run.

        >>> Visibility.parse("causal() & window(left=128, right=0)")
        causal() & window(left=128, right=0)

        Raises ValueError for anything else.
        """
        return _Reader(text).rule()

    @property
    def reads_query_position(self) -> bool:
        """Whether the answer depends on where a query stands: then `at` must say it."""
        return True

    def picture(self, query: int, key: int) -> str:
        """Rows are queries, columns keys; `#` is visible, `.` is not."""
        visible = self(Positions.of(query, key)).expand(1, 1, query, key)[0, 0]
        return "\n".join(" ".join("#" if cell else "." for cell in row) for row in visible.tolist())

    def __and__(self, other: "Visibility") -> "Visibility":
        if isinstance(self, Everything) or isinstance(other, Everything):
            return other if isinstance(self, Everything) else self
        return And((*_parts(self, And), *_parts(other, And)))

    def __or__(self, other: "Visibility") -> "Visibility":
        if isinstance(self, Everything) or isinstance(other, Everything):
            return everything()
        return Or((*_parts(self, Or), *_parts(other, Or)))

    def __invert__(self) -> "Visibility":
        return Not(self)


@dataclass(frozen=True)
class Everything(Visibility):
    def __call__(self, at: Positions) -> Bool[Tensor, "1 1 1 1"]:
        return torch.ones(1, 1, 1, 1, dtype=torch.bool, device=at.device)

    @property
    def reads_query_position(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "everything()"


@dataclass(frozen=True)
class Causal(Visibility):
    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        return at.key <= at.query

    def __repr__(self) -> str:
        return "causal()"


@dataclass(frozen=True)
class Window(Visibility):
    left: int | float
    right: int | float

    def __post_init__(self) -> None:
        if self.left < 0 or self.right < 0:
            raise ValueError(f"A window reaches left={self.left} and right={self.right}: neither may be negative.")

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        distance = at.query - at.key
        return (distance <= self.left) & (-distance <= self.right)

    def __repr__(self) -> str:
        return f"window(left={_number(self.left)}, right={_number(self.right)})"


@dataclass(frozen=True, eq=False)
class Padding(Visibility):
    lengths: Int[Tensor, " batch"] | None = None

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch 1 1 #key"]:
        if self.lengths is None:
            return Everything()(at) if at.real is None else at.real
        here = at.key.shape[-1]
        keys = here if at.uncut_keys is None else at.uncut_keys
        if int(self.lengths.max()) > keys:
            raise ValueError(
                f"`key` has {keys} positions, but padding(lengths) names a sequence of {int(self.lengths.max())}. "
                "Pass the keys' lengths, not the queries'."
            )
        place = at.first_key + torch.arange(here, device=at.device)
        return (place < self.lengths.to(at.device)[:, None])[:, None, None, :]

    @property
    def reads_query_position(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Padding):
            return NotImplemented
        if self.lengths is None or other.lengths is None:
            return self.lengths is other.lengths
        return torch.equal(self.lengths, other.lengths)

    def __hash__(self) -> int:
        return hash(None if self.lengths is None else tuple(self.lengths.tolist()))

    def __repr__(self) -> str:
        return "padding()" if self.lengths is None else f"padding({self.lengths.tolist()})"


@dataclass(frozen=True)
class Combined(Visibility):
    rules: tuple[Visibility, ...]

    @property
    def reads_query_position(self) -> bool:
        return any(rule.reads_query_position for rule in self.rules)


class And(Combined):
    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads #query #key"]:
        return reduce(torch.logical_and, (rule(at) for rule in self.rules))

    def __repr__(self) -> str:
        return " & ".join(f"({rule})" if isinstance(rule, Or) else f"{rule}" for rule in self.rules)


class Or(Combined):
    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads #query #key"]:
        return reduce(torch.logical_or, (rule(at) for rule in self.rules))

    def __repr__(self) -> str:
        return " | ".join(f"{rule}" for rule in self.rules)


@dataclass(frozen=True)
class Not(Visibility):
    rule: Visibility

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads #query #key"]:
        return ~self.rule(at)

    @property
    def reads_query_position(self) -> bool:
        return self.rule.reads_query_position

    def __repr__(self) -> str:
        return f"~({self.rule})" if isinstance(self.rule, Combined) else f"~{self.rule}"


def everything() -> Visibility:
    """Every query sees every key.

    >>> print(everything().picture(2, 3))
    # # #
    # # #
    """
    return Everything()


def causal() -> Visibility:
    """A query sees the keys up to its own position: the triangle M of masked self-attention.

    >>> print(causal().picture(3, 3))
    # . .
    # # .
    # # #
    """
    return Causal()


def window(*, left: int | float, right: int | float) -> Visibility:
    """A query sees `left` keys before itself, itself, and `right` keys after; `math.inf` reaches everything.

    `window(left=2, right=0)` is the truncated self-attention of streaming speech models.

    >>> print(window(left=1, right=0).picture(4, 4))
    # . . .
    # # . .
    . # # .
    . . # #
    """
    return Window(left, right)


def padding(lengths: Int[Tensor, " batch"] | None = None) -> Visibility:
    """The keys that are real are visible, padding is not.

    Without `lengths` the rule reads `Positions.real`, so that one rule serves every batch of a model;
    with `lengths` it holds for one right-padded batch, for use by hand.

    >>> print(padding(torch.tensor([2])).picture(2, 4))
    # # . .
    # # . .
    """
    return Padding(lengths)


@dataclass(frozen=True)
class _Reader:
    text: str

    def rule(self) -> Visibility:
        try:
            return self._rule(ast.parse(self.text.strip(), mode="eval").body)
        except (SyntaxError, TypeError) as error:
            raise ValueError(f"{self.text!r} cannot be read as a visibility rule: {error}. {_EXAMPLE}") from error

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
    "everything": everything,
    "causal": causal,
    "window": window,
    "padding": padding,
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


def _parts(rule: Visibility, kind: type[Combined]) -> tuple[Visibility, ...]:
    """`(a & b) & c` is one conjunction of three."""
    return rule.rules if isinstance(rule, kind) else (rule,)


def _number(value: int | float) -> str:
    return "math.inf" if math.isinf(value) else str(value)
