"""The positions of queries and keys: the facts that a visibility rule or a bias reads."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeVar, cast

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor
from torch.autograd import forward_ad

from foveate.attention.check import described, lengths, require_choice, require_whole, stands

Fact = TypeVar("Fact")
_UNKNOWN = object()


@dataclass(frozen=True, eq=False)
class Positions:
    """Absolute positions of queries and keys, and which keys are real.

    Rules compare absolute positions, so caches, windows and different numbers of queries and keys need no
    alignment convention: the fourth query of a decoder with a cache of three keys says it stands at 3.

    Positions are values: what follows from them, a mask for example, is worked out once and kept with them for the
    other layers and steps that stand there too, until one of their tensors is written to.

    >>> at = Positions.of(query=1, key=4, query_start=3)
    >>> (at.key <= at.query).flatten().tolist()
    [True, True, True, True]
    >>> Positions.of(query=2, key=3, key_lengths=torch.tensor([1, 3])).real.flatten(1).tolist()
    [[True, False, False], [True, True, True]]
    """

    query: Integer[Tensor, "#batch #heads query 1"]
    key: Integer[Tensor, "#batch #heads 1 key"]
    real: Bool[Tensor, "#batch #heads 1 key"] | None = None
    """False where a key is padding; None when every key is real."""
    aligned: bool = False
    """True when query i and key i both stand at position i: kernels then know `causal()` natively."""
    zeroed: bool = False
    """True when keys and values that are padding, or lie in the free room of a cache, are known to be zero, so that no
    path makes them zero."""
    centre: Float[Tensor, "#batch #heads query 1"] | None = None
    """The position around which each query looks: the prediction of local attention, a real number."""
    query_segment: Int[Tensor, "#batch #heads query 1"] | None = None
    """The packed sequence, one of several, that a query belongs to."""
    key_segment: Int[Tensor, "#batch #heads 1 key"] | None = None
    previous: Float[Tensor, "batch heads query all_keys"] | None = None
    """Weights of the step before each query, over all keys: what location-aware scores look at."""
    query_bucket: Int[Tensor, "#batch #heads query rounds"] | None = None
    """The bucket and the chunk in it that each query looks into, in one number, for each round of hashing."""
    key_bucket: Int[Tensor, "#batch #heads rounds key"] | None = None
    first_key: int = 0
    """The number of keys that were cut off in front, for rules that count places in the batch rather than positions."""
    uncut_keys: int | None = None
    """The number of keys before any were cut off; None: these are all."""
    uncut_real: Bool[Tensor, "#batch 1 1 all_keys"] | None = None
    """The keys that were real before any were cut off; None: `real` says it."""
    _known: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        """Distances of small whole numbers would wrap around: 0 - 1 is 255 in uint8. Those to a centre in half
        precision would be rounded: bfloat16 has no 257.
        """
        if self.query.dtype != torch.int64:
            object.__setattr__(self, "query", _widest(self.query))
        if self.key.dtype != torch.int64:
            object.__setattr__(self, "key", _widest(self.key))
        if isinstance(self.centre, Tensor) and self.centre.dtype in (torch.bfloat16, torch.float16):
            object.__setattr__(self, "centre", self.centre.float())

    @classmethod
    def of(
        cls,
        query: int,
        key: int,
        *,
        query_start: int = 0,
        key_lengths: Integer[Tensor, " batch"] | None = None,
        side: Literal["left", "right"] = "right",
        device: torch.device | str | None = None,
    ) -> "Positions":
        """Positions of `query` queries starting at `query_start` and of `key` keys starting at 0.

        With `key_lengths`, sequences are padded to `key` positions on the given side. On the left, positions
        count from the first real token, which only self-attention over the whole sequence can mean.
        """
        if torch.is_inference_mode_enabled() and not traced():  # so that torch counts what is written to them
            with torch.inference_mode(False):
                return cls.of(query, key, query_start=query_start, key_lengths=key_lengths, side=side, device=device)
        whole = type(query) is type(key) is type(query_start) is int and min(query, key, query_start) >= 0
        if not whole and not traced():  # a traced size may be symbolic
            require_whole(0, query=query, key=key, query_start=query_start)
        if side not in ("left", "right"):
            require_choice("side", side, ("left", "right"))
        if key_lengths is not None:
            key_lengths = lengths("key_lengths", key_lengths).long()
            device = key_lengths.device
            if key_lengths.is_cpu and not traced():
                _require_within(key, key_lengths)
        key_index = torch.arange(key, device=device)
        if key_lengths is None or side == "right":
            query_at = torch.arange(query_start, query_start + query, device=device)[None, None, :, None]
            real = None if key_lengths is None else (key_index < key_lengths[:, None])[:, None, None, :]
            return cls(query_at, key_index[None, None, None, :], real, query == key and query_start == 0)
        if query != key:
            raise ValueError(
                f"Left padding shifts {key} keys, but there are {query} queries, and they may stand anywhere. "
                "Build Positions(query=..., key=..., real=...) from your own position tensors."
            )
        shifted = key_index - (key - key_lengths[:, None])
        return cls(shifted[:, None, :, None], shifted[:, None, None, :], (shifted >= 0)[:, None, None, :])

    @classmethod
    def plain(cls, query: int, key: int, device: torch.device) -> "Positions":
        """`of(query, key)` on a device. Short ones on a CPU are made once, and keep what is known about them."""
        if device.type != "cpu" or query * key > PLAIN_PAIRS or traced():
            return cls.of(query, key, device=device)
        kind = (query, key, torch.is_inference_mode_enabled())
        at = _plain.get(kind)
        if at is None:
            if len(_plain) >= PLAIN_KINDS:
                _plain.clear()
            at = _plain[kind] = cls.of(query, key, device=device)
        return at

    def known(self, what: Hashable, worked_out: Callable[[], Fact]) -> Fact:
        """A fact that follows from these positions and from its name `what` alone, computed once."""
        if traced():
            return worked_out()
        tensors = [part for part in self.tensors() if part is not None]
        if any(part.is_inference() for part in tensors):  # torch does not count what is written to these
            return worked_out()
        # Tensors that are made in inference mode cannot be trained with.
        name = (what, sum(part._version for part in tensors), torch.is_inference_mode_enabled())
        fact: Any = self._known.get(name, _UNKNOWN)
        if fact is _UNKNOWN:
            fact = worked_out()
            if len(self._known) >= FACTS:
                self._known.clear()
            self._known[name] = fact
        return cast(Fact, fact)

    def private(self) -> "Positions":
        """The same, with copies of tensors made in inference mode, to which torch counts no writes."""
        parts = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        copies: dict[str, Any] = {
            name: part.clone() for name, part in parts.items() if isinstance(part, Tensor) and part.is_inference()
        }
        return replace(self, **copies) if copies else self

    def tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors of all fields."""
        segments = (self.query_segment, self.key_segment, self.query_bucket, self.key_bucket)
        return (self.query, self.key, self.real, self.uncut_real, self.centre, self.previous, *segments)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}}

    @property
    def device(self) -> torch.device:
        return self.query.device

    @property
    def key_lengths(self) -> Int[Tensor, "#batch 1 1 1"]:
        """The true number of keys of each example, those that were cut off included."""
        if self.all_real is None:
            return torch.full((1, 1, 1, 1), self.all_keys, device=self.device)
        return self.all_real.sum(-1, keepdim=True)

    @property
    def all_keys(self) -> int:
        """The number of keys, those that were cut off included."""
        return self.key.shape[-1] if self.uncut_keys is None else self.uncut_keys

    @property
    def all_real(self) -> Bool[Tensor, "#batch 1 1 all_keys"] | None:
        """The real keys among all keys, those that were cut off included."""
        return self.real if self.uncut_real is None else self.uncut_real

    def select(self, examples: Int[Tensor, " new_batch"]) -> "Positions":
        """Some examples of the batch; parts that all examples share stay shared."""
        parts = {name: getattr(self, name) for name in _BATCHED}
        chosen: dict[str, Any] = {
            name: part if part is None or part.shape[0] == 1 else part[examples] for name, part in parts.items()
        }
        return replace(self, **chosen)

    def rows(self, rows: slice) -> "Positions":
        """The same keys seen by some of the queries."""
        return self.changed(of_query=lambda part: part[:, :, rows])

    def columns(self, columns: slice) -> "Positions":
        """Some of the keys seen by the same queries."""
        first, _, step = columns.indices(self.key.shape[-1])
        if step != 1:
            raise ValueError(f"Keys are cut in one piece, not in steps of {step}.")
        uncut: dict[str, Any] = {"uncut_keys": self.all_keys, "uncut_real": self.all_real}
        return self.changed(of_key=lambda part: part[..., columns], first_key=self.first_key + first, **uncut)

    def changed(
        self,
        *,
        of_query: Callable[[Tensor], Tensor] | None = None,
        of_key: Callable[[Tensor], Tensor] | None = None,
        **others: Any,
    ) -> "Positions":
        """Other queries or keys: a function is applied to each tensor with a row per query, or with a column per key.

        `others` are further fields to replace.
        """
        for names, change in ((_BY_QUERY, of_query), (_BY_KEY, of_key)):
            if change is not None:
                for name in names:
                    part = getattr(self, name)
                    others[name] = None if part is None else change(part)
        return replace(self, aligned=False, **others)

    def followed_by(self, later: "Positions") -> "Positions":
        """These queries and later ones, looking at the keys of the later ones."""
        both = {name: (getattr(self, name), getattr(later, name)) for name in _BY_QUERY}
        joined: dict[str, Any] = {
            name: None if one is None or other is None else torch.cat([one, other], dim=2)
            for name, (one, other) in both.items()
        }
        return replace(later, aligned=False, **joined)


def _widest(places: Tensor) -> Tensor:
    whole = not (places.is_floating_point() or places.is_complex() or places.dtype == torch.bool)
    return places.long() if whole else places


_BY_QUERY = ("query", "centre", "query_segment", "previous", "query_bucket")
_BY_KEY = ("key", "real", "key_segment", "key_bucket")
_BATCHED = (*_BY_QUERY, *_BY_KEY, "uncut_real")


def _require_within(keys: int, lengths: Tensor) -> None:
    numbers = lengths.tolist()
    if numbers and (min(numbers) < 0 or max(numbers) > keys):
        raise ValueError(
            f"`key_lengths` go from {min(numbers)} to {max(numbers)}, but there are {keys} keys, padding included. "
            "Pass the true length of each example."
        )


def require_places(at: Positions, query: Tensor, key: Tensor) -> None:
    """Raise TypeError for anything but positions, ValueError for positions of other queries or keys."""
    if not isinstance(at, Positions):
        raise TypeError(f"`at` says where queries and keys stand: Positions.of(query=..., key=...), not {at!r}.")
    (batch, heads, queries, _), keys = query.shape, key.shape[2]
    _require_shape("query", at.query, (batch, heads, queries, 1))
    _require_shape("key", at.key, (batch, heads, 1, keys))
    if at.real is not None:
        _require_shape("real", at.real, (batch, heads, 1, keys))


def require_facts(at: Positions, query: Tensor, key: Tensor) -> None:
    """Raise ValueError for centres, segments or weights of the step before that belong to other queries or keys."""
    (batch, heads, queries, _), keys = query.shape, key.shape[2]
    for name, shape in (
        ("centre", (batch, heads, queries, 1)),
        ("query_segment", (batch, heads, queries, 1)),
        ("key_segment", (batch, heads, 1, keys)),
        ("previous", (batch, heads, queries, at.all_keys)),
    ):
        if getattr(at, name) is not None:
            _require_shape(name, getattr(at, name), shape)


def _require_shape(name: str, part: Any, shape: tuple[int, ...]) -> None:
    """Raise ValueError for a field of positions that does not fit the queries and keys."""
    if stands(part, shape) and (name != "real" or part.dtype == torch.bool):
        return
    kind = part.dtype if isinstance(part, Tensor) else None
    if name in ("query", "key", "real") and (
        kind is None or part.dim() != 4 or (name == "real" and kind != torch.bool)
    ):
        raise ValueError(
            f"`at.{name}` is {described(part)}{f', {kind}' if kind else ''}, but it holds "
            f"{'Bools' if name == 'real' else 'whole numbers'} of shape {shape}, where batch and heads may be 1. "
            "Positions.of(query=..., key=..., key_lengths=...) makes them."
        )
    axis = {"query": 2, "key": 3}.get(name)
    if axis is not None and part.shape[axis] != shape[axis]:
        raise ValueError(
            f"`{name}` has {shape[axis]} positions, but `at` places {part.shape[axis]}. "
            "Build `at` for the tensors you pass."
        )
    raise ValueError(
        f"`at.{name}` has shape {tuple(part.shape)}, and for these queries and keys it is {shape}, where batch and "
        "heads may be 1. Give Positions.of as many lengths as the batch has examples."
    )


FACTS = 16
"""The most facts that are kept: a model has few rules and sizes of tiles, but each batch may bring its own rule."""
PLAIN_PAIRS, PLAIN_KINDS = 2**16, 64
"""The most pairs, and the number of sizes, for which default positions are kept."""
_plain: dict[Hashable, Positions] = {}


def traced() -> bool:
    """Whether tensors are placeholders, as while a program is traced: then nothing is kept, and no number is read."""
    return torch.compiler.is_compiling() or _tracing_state() is not None or _dispatch_modes() > 0 or transformed()


def transformed() -> bool:
    """Whether `torch.func` or forward differentiation computes: then a number of a tensor cannot be read, or its
    tangent would be lost. Always true under `torch.compile`, which cannot read numbers either.
    """
    return _transforms() is not None or forward_ad._current_level >= 0


# Every call of an attention asks, and looking these up in torch takes as long as their answers.
_tracing_state = torch._C._get_tracing_state
_dispatch_modes = torch._C._len_torch_dispatch_stack
_transforms = torch._C._functorch.peek_interpreter_stack
