"""The base class of rules, and their Boolean algebra: `&`, `|` and `~`, which simplify what they can prove."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from inspect import isabstract
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from foveate.attention.check import refusal, require_whole
from foveate.attention.position import Positions
from foveate.attention.visibility.notation import read
from foveate.attention.visibility.reach import EVERYWHERE, NOWHERE, Reach, Span, intersection, union

COUNTED_PAIRS, SAMPLED_ROWS = 2**20, 64
"""The most pairs that are counted one by one, and the number of queries whose keys are counted beyond that."""
Count = int | float
"""A number of keys, or math.inf."""
Band = tuple[Count, Count]
"""The numbers of keys that a query sees before and after itself, all of them and no others; neither is negative."""
EVERYWHERE_BAND: Band = (math.inf, math.inf)
TRIANGLE: Band = (math.inf, 0)
"""The band of causal()."""


@dataclass(frozen=True, eq=False)
class EdgeList:
    """Edges of a graph, sources (the keys) above targets (the queries)."""

    index: Int[Tensor, "2 edges"]
    self_loops: bool
    """Whether every node also sees itself."""


class Split(NamedTuple):
    """A conjunction as kernels take it: a band, whether padding is hidden, and the rules that say more than that."""

    band: Band
    pads: bool
    rest: "tuple[Visibility, ...]"


class Visibility(ABC):
    """A rule: from positions to a Bool that says, for each query and key, whether the query may look.

    The answer may leave axes of size 1 where the rule does not depend on them; it broadcasts to
    `batch heads query key`.

    >>> from foveate.attention import causal, padding, window
    >>> print((causal() & ~window(left=1, right=0)).picture(4, 4))
    . . . .
    . . . .
    # . . .
    # # . .
    >>> causal() & window(left=2, right=5) & padding()
    window(left=2, right=0) & padding()
    """

    __array_ufunc__ = None  # numpy leaves `array & rule` to the rule

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _forget_facts_of_another_answer(cls)
        for base in cls.__mro__[1:]:
            if issubclass(base, Visibility) and base.__module__.startswith("foveate.") and not isabstract(base):
                raise TypeError(
                    f"{cls.__name__} subclasses {base.__name__}, whose answers paths know without asking it. Subclass "
                    "Visibility, or join rules: causal() & predicate(lambda at: at.key % 2 == 0)."
                )

    @abstractmethod
    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads #query #key"]: ...

    @classmethod
    def parse(cls, text: str) -> "Visibility":
        """The rule that prints as `text`; only the rules of this package are called, nothing else is run.

        >>> Visibility.parse("window(left=128, right=0) & padding()")
        window(left=128, right=0) & padding()

        Raises ValueError for anything else.
        """
        rule: Visibility = read(text)
        return rule

    # ---- what a rule may state about itself, so that paths, traces and exports need not know its class -------------

    onnx: ClassVar[Callable[..., str] | None] = None
    """`onnx(graph, places)` writes the rule as operators (`foveate.attention.onnx`); None: it cannot be exported."""

    @property
    def band(self) -> Band | None:
        """The numbers of keys that a query sees before and after itself, where the rule says that and nothing else."""
        return None

    @property
    def graph(self) -> EdgeList | None:
        """The edges, where the rule says who is linked to whom and nothing else."""
        return None

    @property
    def pads(self) -> bool:
        """Whether the rule hides the keys that `Positions.real` calls padding, and nothing else."""
        return False

    @property
    def hides(self) -> bool:
        """Whether anything can be hidden at all."""
        return True

    @property
    def reads_query_position(self) -> bool:
        """Whether the answer depends on where a query stands, so that `at` must state it."""
        return True

    @property
    def reads_length(self) -> bool:
        """Whether the answer depends on the length of the whole sequence, which is unknown while it is generated."""
        return False

    @property
    def by_pair(self) -> bool:
        """Whether the answer about a query and a key depends on these two alone, and on no others in the call."""
        return self.band is not None

    @property
    def gapless(self) -> bool:
        """Whether a query sees all real keys between the first and the last one that it sees."""
        return self.band is not None

    @property
    def ahead(self) -> Count:
        """The most keys after itself that a query sees; infinite where no limit is known."""
        return math.inf if self.band is None else self.band[1]

    @property
    def behind(self) -> Count:
        """The most keys before itself that a query sees; infinite where no limit is known."""
        return math.inf if self.band is None else self.band[0]

    @property
    def width(self) -> int | float:
        """About how many keys a query sees at most; infinite when that grows with the length."""
        return math.inf if self.band is None else sum(self.band) + 1

    def reach(self, at: Positions) -> Reach:
        """Spans of positions: a query sees nothing outside them, and may or may not see what lies inside."""
        if self.band is None:
            return EVERYWHERE
        left, right = self.band
        first = -left if left == math.inf else at.query.double() - left
        return Reach((Span(first, right if right == math.inf else at.query.double() + right),))

    def bounds(self, at: Positions) -> tuple[Tensor, Tensor]:
        """The first and the last position that each query may see; first > last where it sees nothing."""
        return self.reach(at).hull(at)

    @property
    def lasting(self) -> bool:
        """Whether the answer at some positions may be kept with them, as it reads nothing else that changes: so for
        frozen dataclasses. Other rules may state it; what is kept is found by `==` and `hash` of the rule.
        """
        parameters = type(self).__dict__.get("__dataclass_params__")
        return parameters is not None and bool(parameters.frozen)

    @property
    def parts(self) -> "tuple[Visibility, ...]":
        """The rules that are joined by `&` here: this one, if it is not a conjunction."""
        return (self,)

    def split(self) -> Split:
        """The parts that kernels know natively, apart from the others.

        >>> from foveate.attention import causal, padding, prefix
        >>> (causal() & padding() & prefix(2)).split()
        Split(band=(inf, 0), pads=True, rest=(prefix(2),))
        """
        left, right, pads, rest = math.inf, math.inf, False, []
        for rule in self.parts:
            if (band := rule.band) is not None:
                left, right = min(left, band[0]), min(right, band[1])
            elif rule.pads:
                pads = True
            else:
                rest.append(rule)
        return Split((left, right), pads, tuple(rest))

    def simplified(self, at: Positions) -> "Visibility":
        """The simplest rule with the same answer at these positions."""
        return self

    _counts: ClassVar[tuple[str, ...]] = ()
    """Fields with which a rule shows more keys: two rules that are alike in all others meet in the smaller counts, and
    join in the larger ones.
    """

    def meet(self, other: "Visibility") -> "Visibility | None":
        """One simpler rule for `self & other`, if this rule knows one."""
        return self._with_counts(other, min)

    def join(self, other: "Visibility") -> "Visibility | None":
        """One simpler rule for `self | other`, if this rule knows one."""
        return self._with_counts(other, max)

    def _with_counts(self, other: Any, which: Callable[..., Count]) -> "Visibility | None":
        if not self._counts or type(other) is not type(self):
            return None
        counts = {name: which(getattr(self, name), getattr(other, name)) for name in self._counts}
        both: tuple[Any, Any] = (self, other)
        rule, same = (replace(each, **counts) for each in both)
        return rule if rule == same else None

    def pairs(self, at: Positions, heads: int = 1) -> float:
        """The number of visible pairs: counted, or, beyond a million, estimated from some of the queries."""
        queries, keys = at.query.shape[2], at.key.shape[-1]
        stride = 1 if queries * keys <= COUNTED_PAIRS else max(1, queries // SAMPLED_ROWS)
        rows = slice(stride // 2, queries, stride)
        visible = self(at.rows(rows))
        # A rule may bring lengths of its own, and then answers for more examples than the positions.
        batch = max(part.shape[0] for part in (at.query, at.key, at.real, visible) if part is not None)
        visible = visible.expand(*visible.shape[:2], len(range(queries)[rows]), keys)
        return float(visible.double().mean()) * batch * heads * queries * keys if visible.numel() else 0.0

    def picture(self, query: int, key: int) -> str:
        """Rows are queries, columns keys; `#` is visible, `.` is not."""
        require_whole(0, query=query, key=key)
        visible = self(Positions.of(query, key)).expand(1, 1, query, key)[0, 0]
        return "\n".join(" ".join("#" if cell else "." for cell in row) for row in visible.tolist())

    def __and__(self, other: "Visibility") -> "Visibility":
        return _combined(And, self, other)

    def __or__(self, other: "Visibility") -> "Visibility":
        return _combined(Or, self, other)

    def __rand__(self, other: object) -> "Visibility":
        """Python calls this only where the left operand is not a rule."""
        require_visibility(other)
        return NotImplemented

    __ror__ = __rand__

    def __invert__(self) -> "Visibility":
        return Not(self)

    def __bool__(self) -> bool:
        """Always a TypeError, because `causal() and padding()` would be `padding()` alone."""
        raise TypeError(f"{self} is neither true nor false before it is asked. Join rules with `&`, `|` and `~`.")


def require_visibility(rule: object) -> None:
    """Raise TypeError for anything but a rule."""
    if isinstance(rule, Visibility):
        return
    if isinstance(rule, Tensor | np.ndarray):
        raise refusal(
            "visibility",
            rule,
            "A rule tells from positions who may look at whom: predicate(lambda at: tensor[at.query, at.key]) for a "
            "tensor of `query key`, or padding() with at=Positions.of(..., key_lengths=...).",
        )
    raise refusal("visibility", rule, "Give a rule, such as causal(), or a function of yours in predicate(...).")


def _forget_facts_of_another_answer(cls: type[Visibility]) -> None:
    """Reset what a subclass with another answer inherits from a class that states it about its own answer."""
    answer = _defined(cls, "__call__")
    for name in (name for name in vars(Visibility) if not name.startswith("_")):
        source = next(base for base in cls.__mro__ if name in vars(base))
        described = _defined(source, "__call__")
        if source is not cls and described not in (None, answer, Visibility.__call__):
            setattr(cls, name, vars(Visibility)[name])


def _defined(kind: type, name: str) -> object:
    """A member of the first class in the order of inheritance that has it, or None."""
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


@dataclass(frozen=True)
class Everything(Visibility):
    band, hides, reads_query_position, parts = EVERYWHERE_BAND, False, False, ()

    def __call__(self, at: Positions) -> Bool[Tensor, "1 1 1 1"]:
        return torch.ones(1, 1, 1, 1, dtype=torch.bool, device=at.device)

    def __invert__(self) -> Visibility:
        return Nothing()

    def __repr__(self) -> str:
        return "everything()"


@dataclass(frozen=True)
class Nothing(Visibility):
    by_pair, reads_query_position, width = True, False, 0.0

    def __call__(self, at: Positions) -> Bool[Tensor, "1 1 1 1"]:
        return torch.zeros(1, 1, 1, 1, dtype=torch.bool, device=at.device)

    def reach(self, at: Positions) -> Reach:
        return NOWHERE

    def __invert__(self) -> Visibility:
        return Everything()

    def __repr__(self) -> str:
        return "nothing()"


def _of_rules(fact: str, joined_by: Callable[[Iterator[Any]], Any]) -> Any:
    """A fact about a combination, which follows from what its rules state."""
    return property(lambda self: joined_by(getattr(rule, fact) for rule in self.rules))


class Combined(Visibility):
    rules: tuple[Visibility, ...]
    by_pair, lasting = _of_rules("by_pair", all), _of_rules("lasting", all)
    reads_length, reads_query_position = _of_rules("reads_length", any), _of_rules("reads_query_position", any)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Combined) and type(self) is type(other) and set(self.rules) == set(other.rules)

    def __hash__(self) -> int:
        return hash((type(self), frozenset(self.rules)))  # never kept: lengths in a part may change


@dataclass(frozen=True, eq=False)
class And(Combined):
    rules: tuple[Visibility, ...]
    gapless, ahead, behind = _of_rules("gapless", all), _of_rules("ahead", min), _of_rules("behind", min)
    width = _of_rules("width", min)

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads #query #key"]:
        return reduce(torch.logical_and, (rule(at) for rule in self.rules))

    @property
    def parts(self) -> tuple[Visibility, ...]:
        return self.rules

    def simplified(self, at: Positions) -> Visibility:
        return reduce(lambda one, other: one & other, (rule.simplified(at) for rule in self.rules))

    def reach(self, at: Positions) -> Reach:
        return reduce(lambda one, other: intersection(one, other, at), (rule.reach(at) for rule in self.rules))

    def __repr__(self) -> str:
        return " & ".join(f"({rule})" if isinstance(rule, Or) else f"{rule}" for rule in self.rules)


@dataclass(frozen=True, eq=False)
class Or(Combined):
    rules: tuple[Visibility, ...]
    ahead, behind, width = _of_rules("ahead", max), _of_rules("behind", max), _of_rules("width", sum)

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads #query #key"]:
        return reduce(torch.logical_or, (rule(at) for rule in self.rules))

    def reach(self, at: Positions) -> Reach:
        return reduce(union, (rule.reach(at) for rule in self.rules))

    def __repr__(self) -> str:
        return " | ".join(f"{rule}" for rule in self.rules)


@dataclass(frozen=True, eq=False)
class Not(Combined):
    rule: Visibility

    @property
    def rules(self) -> tuple[Visibility, ...]:  # type: ignore[override]
        return (self.rule,)

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads #query #key"]:
        return ~self.rule(at)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Not) and self.rule == other.rule  # a rule of a user's may have no hash

    __hash__ = Combined.__hash__

    def __invert__(self) -> Visibility:
        return self.rule

    def __repr__(self) -> str:
        return f"~({self.rule})" if isinstance(self.rule, And | Or) else f"~{self.rule}"


def everything() -> Visibility:
    """Every query sees every key.

    >>> print(everything().picture(2, 3))
    # # #
    # # #
    """
    return Everything()


def nothing() -> Visibility:
    """No query sees any key: what remains when rules contradict each other.

    >>> from foveate.attention import causal
    >>> causal() & ~causal()
    nothing()
    """
    return Nothing()


def joined(rules: Sequence[Visibility]) -> Visibility:
    """The conjunction of rules that are simplified already."""
    return And(tuple(rules)) if len(rules) > 1 else rules[0] if rules else Everything()


def _combined(kind: type[And | Or], one: Visibility, other: Visibility) -> Visibility:
    """The fewest rules that pairwise simplification leaves; each stands where the first of its parts stood."""
    require_visibility(other)
    simplest: list[Visibility] = []
    for rule in (*_parts(one, kind), *_parts(other, kind)):
        place = len(simplest)
        index = 0
        while index < len(simplest):
            simpler = _merged(kind, simplest[index], rule)
            if simpler is None:
                index += 1
                continue
            rule, place = simpler, min(place, index)
            del simplest[index]
            index = 0
        simplest.insert(place, rule)
    return simplest[0] if len(simplest) == 1 else kind(tuple(simplest))


def _merged(kind: type[And | Or], one: Visibility, other: Visibility) -> Visibility | None:
    """One rule in place of two that are combined, where one is known."""
    stronger, weaker, dual = (Nothing, Everything, Or) if kind is And else (Everything, Nothing, And)
    for rule, beside in ((one, other), (other, one)):
        if rule == beside or isinstance(rule, stronger) or isinstance(beside, weaker):
            return rule
        if rule == Not(beside):
            return stronger()
        for part in _parts(beside, dual):
            if _implies(rule, part) if kind is And else _implies(part, rule):
                return rule
    return _simpler("meet" if kind is And else "join", one, other)


def _implies(rule: Visibility, beside: Visibility) -> bool:
    """Whether what `rule` shows is known to be shown by `beside`, too."""
    return rule in (beside, _simpler("meet", rule, beside)) or _simpler("join", rule, beside) == beside


def _simpler(meet_or_join: str, one: Visibility, other: Visibility) -> Visibility | None:
    """A simpler rule that either of the two knows to be the same as both; None where neither knows one."""
    simpler: Visibility | None = getattr(one, meet_or_join)(other)
    return getattr(other, meet_or_join)(one) if simpler is None else simpler


def _parts(rule: Visibility, kind: type[And | Or]) -> tuple[Visibility, ...]:
    """`(a & b) & c` is one conjunction of three."""
    return rule.rules if isinstance(rule, kind) else (rule,)
