"""One attention: score → bias → visibility → normaliser → context, with three verbs: explain, run and plan."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate import machine
from foveate.attention import check, record
from foveate.attention.bias import Bias
from foveate.attention.chooser import Choice, Plan, PlannedPath, choose
from foveate.attention.claim import condition
from foveate.attention.explanation import Explanation, Shows, is_explaining
from foveate.attention.normaliser import Normaliser, Softmax, softmax_temperature
from foveate.attention.paths import PATHS
from foveate.attention.paths.hidden import BLOCK, finite, nothing_to_silence
from foveate.attention.paths.materialised import MaterialisedPath, biased_scores, materialise, visible_keys
from foveate.attention.paths.pairwise import looked_back
from foveate.attention.paths.path import Inputs, Path, share_heads
from foveate.attention.position import Positions, require_facts, require_places, traced, transformed
from foveate.attention.score import (
    FeedbackScore,
    KeyedScore,
    PlacedScore,
    ScaledDot,
    Score,
    is_placed,
    require_true_form,
)
from foveate.attention.transform import Transform
from foveate.attention.visibility import Visibility, everything
from foveate.attention.visibility.rule import require_visibility

REMEMBERED = 4096
"""Choices of paths kept by one attention."""
RULES = 64
"""Rules that change with the data, for which choices are kept."""
Centre = Callable[[Tensor, Positions], Float[Tensor, "#batch #heads query 1"]]
"""From queries to where in the keys each wants to look, as in the local attention of Luong et al. 2015."""


class Attention(nn.Module):
    """context_i = Σ_j α_ij v_j with α = normalise(score(q_i, k_j) + bias_ij) over the visible keys.

    `explain` materialises every step and is the definition; `run` takes the fastest path that computes exactly the
    same; `plan` says which one and why. A query that sees nothing gets weights 0 and context 0, with finite
    gradients. What a hidden key or value holds, even NaN, cannot reach the context. Explained weights are the weights
    before dropout. Queries are `batch heads query head_dim`; keys and values may have fewer heads (`kv_heads`
    divides `heads`), which are then shared by groups of query heads.

    The self-attention that the Persian lecture prints with rounded weights, without scaling, from query and key
    alone (the lecture writes [0.0, 0.5, 0.5] for the first row):

    >>> import torch
    >>> from foveate.attention import Attention, Dot
    >>> query = torch.tensor([[1., 0, 2], [2, 2, 2], [2, 1, 3]])[None, None]
    >>> key = torch.tensor([[0., 1, 1], [4, 4, 0], [2, 3, 1]])[None, None]
    >>> value = torch.tensor([[1., 2, 3], [2, 8, 0], [2, 6, 3]])[None, None]
    >>> seen = Attention(score=Dot()).explain(query=query, key=key, value=value)
    >>> seen.scores[0, 0, 0]
    tensor([2., 4., 4.])
    >>> seen.weights[0, 0, 0]
    tensor([0.0634, 0.4683, 0.4683])
    >>> seen.context[0, 0, 0]
    tensor([1.9366, 6.6831, 1.5951])
    """

    shows: Shows = "exact"
    """The weights that `explain` shows."""

    def __init__(
        self,
        score: Score | PlacedScore | None = None,
        *,
        visibility: Visibility | None = None,
        bias: Bias | None = None,
        transforms: Sequence[Transform] = (),
        normaliser: Normaliser | None = None,
        centre: Centre | None = None,
        reweight: Bias | None = None,
        kind: Literal["self", "cross"] = "self",
        paths: Sequence[Path] = PATHS,
    ) -> None:
        """`transforms` change queries and keys first, in their order. `centre` says where in the keys each query wants
        to look, for rules and biases that read `Positions.centre`. Normalised weights are multiplied by exp(reweight).
        `kind` only labels records. `paths` may be extended by your own; of those that accept, one of your own runs, or
        else the one that should be the fastest.
        """
        super().__init__()
        self.score: Score | PlacedScore = ScaledDot() if score is None else score
        self.visibility = everything() if visibility is None else visibility
        self.normaliser: Normaliser = Softmax() if normaliser is None else normaliser
        check.require_part("score", self.score, (Callable, PlacedScore))
        require_visibility(self.visibility)
        check.require_part("normaliser", self.normaliser, Normaliser)
        check.require_placed(bias=bias, reweight=reweight)
        if centre is not None:
            check.require_part("centre", centre, Callable)
        self.bias, self.reweight = bias, reweight
        self.transforms: tuple[Transform, ...] = check.require_parts("transforms", transforms, Transform)
        for index, transform in enumerate(self.transforms):
            if isinstance(transform, nn.Module):
                self.add_module(f"transform_{index}", transform)
        self.centre = centre
        check.require_choice("kind", kind, ("self", "cross"))
        self.kind = kind
        self.paths: tuple[Path, ...] = check.require_parts("paths", paths, Path)
        if not self.paths:
            raise ValueError("`paths` is empty, so nothing could run. Leave it out for all, or give one at least.")
        self._chosen: dict[object, Choice] = {}

    def key_features(self, key: Float[Tensor, "batch heads key key_dim"]) -> Tensor | None:
        """The key's part of the score, to be computed once and passed to every `run` on the same keys; None where
        there is none, or where it depends on positions. Keys that groups of heads share are repeated for it.
        """
        if self.transforms:
            return None
        return self.score.key_features(key) if isinstance(self.score, KeyedScore) else None

    def over(self, visibility: Visibility, *, bias: Bias | None = None) -> "Attention":
        """This attention under a rule that changes with the data, such as the edges of a graph, and with a bias.

        It shares the weights of this one, and its bias where none is given. Records name it by this module. Raises
        ValueError for a second bias.

        >>> from foveate.attention import Attention, Dot, edges
        >>> attention = Attention(score=Dot())
        >>> attention.over(edges([[0, 1], [1, 0]])).visibility, attention.visibility
        (edges([[0, 1], [1, 0]]), everything())
        """
        if bias is not None and self.bias is not None:
            raise ValueError(
                "The attention has a bias of its own, and `bias` is another. Build the attention without one, and give "
                "one bias that is their sum."
            )
        other: Attention = object.__new__(type(self))
        own = {name: dict(self.__dict__[name]) for name in ("_parameters", "_buffers", "_modules")}
        own["_modules"].pop("visibility", None)
        choices = self.__dict__.setdefault("_chosen_over", {})
        if len(choices) > RULES:
            choices.clear()
        parts = {"visibility": visibility, "_site": self} | ({} if bias is None else {"bias": bias})
        other.__dict__.update(self.__dict__, **own, **parts)
        other.__dict__["_chosen"] = choices.setdefault((visibility, condition(other.bias)), {})
        if (of := getattr(self.__dict__.get("run"), "of", None)) is not None:
            other.__dict__["run"] = of(other)  # an observer's, which would run the attention that it was made for
        return other

    def explain(
        self,
        query: Float[Tensor, "batch heads query query_dim"],
        key: Float[Tensor, "batch kv_heads key key_dim"],
        value: Float[Tensor, "batch kv_heads key value_head_dim"],
        *,
        at: Positions | None = None,
    ) -> Explanation:
        """Scores, visibility, weights and context in full: O(query · key) memory.

        Raises ValueError when shapes or types of numbers do not fit, or when the rule needs positions that were not
        given.
        """
        query, key, at = self._placed(query, key, value, at)
        self._require_parts(query, key, at)
        scores, visible, weights, context = materialise(self, query, key, value, at=at)
        return Explanation(scores, visible.expand_as(scores), weights, context, self.shows)

    def run(
        self,
        query: Float[Tensor, "batch heads query query_dim"],
        key: Float[Tensor, "batch kv_heads key key_dim"],
        value: Float[Tensor, "batch kv_heads key value_head_dim"],
        *,
        at: Positions | None = None,
        key_features: Float[Tensor, "batch #heads key feature"] | None = None,
        dropout: float = 0.0,
    ) -> Float[Tensor, "batch heads query value_head_dim"]:
        """The context, by the fastest path that computes exactly this attention.

        `dropout` is the probability with which a weight is dropped (training only). Raises as `explain` does.
        """
        source = key
        query, key, at = self._placed(query, key, value, at)
        if dropout != 0.0:
            check.require_probability(dropout=dropout)
        record.note(self, self.kind, query, key, at, source=source)
        training = self._trains(query, key, value, key_features)
        path = self._choose(query, key, at, training=training, key_features=key_features).path
        return path.run(self, query, key, value, at=at, key_features=key_features, dropout=dropout)

    def step(
        self,
        query: Float[Tensor, "batch heads query query_dim"],
        key: Float[Tensor, "batch kv_heads key key_dim"],
        value: Float[Tensor, "batch kv_heads key value_head_dim"],
        *,
        at: Positions | None = None,
        key_features: Float[Tensor, "batch #heads key feature"] | None = None,
    ) -> tuple[
        Float[Tensor, "batch heads query value_head_dim"],
        Float[Tensor, "batch heads query key"],
    ]:
        """The context and the weights, for decoders that hand the weights on to the next step."""
        source = key
        query, key, at = self._placed(query, key, value, at)
        record.note(self, self.kind, query, key, at, source=source)
        if (result := looked_back(Inputs(self, query, key, value, at, key_features))) is not None:
            return result
        _, _, weights, context = materialise(self, query, key, value, at=at, key_features=key_features)
        return context, weights

    def plan(
        self,
        query: Float[Tensor, "batch heads query query_dim"],
        key: Float[Tensor, "batch kv_heads key key_dim"],
        *,
        at: Positions | None = None,
    ) -> Plan:
        """The path that `run` would take for inputs of this size, and the answers of the others."""
        query, key, at = self._placed(query, key, key, at)
        choice = self._choose(query, key, at, training=self._trains(query, key))
        self._require_score(query, key, at)
        answers = tuple(self._answer(path, query, key, at) for path in self.paths)
        because = f"{type(self.score).__name__} + {self.visibility} + {type(self.normaliser).__name__}"
        return Plan(choice.path.name, because, answers, choice.because)

    @property
    def max_length(self) -> int | None:
        """The most positions that the score has numbers for; None where there is no limit."""
        return getattr(self.score, "max_length", None)

    @property
    def is_plain(self) -> bool:
        """Nothing but a score, a visibility and softmax: what kernels for dot products compute."""
        extras = (self.bias, self.reweight, self.centre)
        plain = not self.transforms and all(extra is None for extra in extras)
        return plain and softmax_temperature(self.normaliser) == 1.0

    def extra_repr(self) -> str:
        names = ("score", "visibility", "normaliser", "bias", "transforms", "centre", "reweight")
        parts = {name: getattr(self, name) for name in names}
        own = {name: part for name, part in parts.items() if part not in (None, ()) and not isinstance(part, nn.Module)}
        return ", ".join(f"{name}={part}" for name, part in own.items())

    def _trains(self, *tensors: Tensor | None) -> bool:
        """Whether a backward pass will follow: to these tensors, or to weights of the attention."""
        if not torch.is_grad_enabled():
            return False
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return True
        if not self._modules and not self._parameters:  # looking for weights where there are none takes microseconds
            return False
        return any(weight.requires_grad for weight in self.parameters())

    def _choose(
        self, query: Tensor, key: Tensor, at: Positions, *, training: bool, key_features: Tensor | None = None
    ) -> Choice:
        """The path that should be the fastest. A choice is kept for what it depends on beside the parts."""
        if torch.compiler.is_compiling():  # rules and earlier choices are nothing to trace
            for path in self.paths:
                if getattr(path, "traceable", False) and not path.refuses(self, query, key, at):
                    return Choice(path, "the first path of torch's own operations that accepts is compiled")
        if is_explaining() and self.shows == "exact":
            return Choice(MaterialisedPath(), "all weights are wanted")
        temperature, score = softmax_temperature(self.normaliser), self.score
        kind = (
            query.shape,
            key.shape,
            query.dtype,
            query.device,
            None if key_features is None else key_features.shape,
            at.aligned,
            at.real is None,
            at.previous is None,
            at.query_bucket is None,
            training,
            traced(),
            transformed(),
            condition(score),
            getattr(self.normaliser, "training", False),
            temperature if temperature is None else temperature == 1.0,
            machine.current().onednn_matmul,
        )
        earlier = self._chosen.get(kind)
        if earlier is not None:
            path = earlier.path
            if getattr(path, "by_kind", False) or not path.refuses(self, query, key, at):
                return earlier
        if not traced():
            self._require_parts(query, key, at)
            if key_features is not None:
                self._require_features(query, key, key_features)
        choice = choose(self.paths, self, query, key, at, training=training)
        if len(self._chosen) > REMEMBERED:
            self._chosen.clear()
        checked = ("form", query.dtype, *condition(score))
        if checked not in self._chosen and not traced():
            require_true_form(score, query, key)
            self._chosen[checked] = choice
        self._chosen[kind] = choice
        return choice

    def __setattr__(self, name: str, value: Any) -> None:
        """A part that is exchanged makes every choice anew."""
        if name in self.__dict__.get("_modules", {}) and not isinstance(value, nn.Module):
            del self._modules[name]  # a part with weights may make room for one without
        super().__setattr__(name, value)
        for name_of_choices in ("_chosen", "_chosen_over"):
            if chosen := self.__dict__.get(name_of_choices):
                chosen.clear()

    def __getstate__(self) -> dict[str, Any]:
        """Without the choices: another machine may lack the kernels of this one."""
        return {**self.__dict__, "_chosen": {}, "_chosen_over": {}}

    def _answer(self, path: Path, query: Tensor, key: Tensor, at: Positions) -> PlannedPath:
        reasons = tuple(path.refuses(self, query, key, at))
        cost = getattr(path, "cost", None)
        flops, room = (math.nan, math.nan) if cost is None else cost(self, query, key, at)
        return PlannedPath(path.name, reasons, flops, room)

    def _placed(
        self, query: Tensor, key: Tensor, value: Tensor, at: Positions | None
    ) -> tuple[Tensor, Tensor, Positions]:
        """Queries and keys as they are scored, and where they stand."""
        at = self._positions(query, key, value, at)
        if self.centre is not None:
            at = replace(at, centre=self.centre(query, at))
        if self.transforms and at.key.shape[1] > key.shape[1]:
            raise ValueError(
                f"`at.key` places {at.key.shape[1]} heads, but {key.shape[1]} heads of keys are transformed where they "
                "stand. Repeat keys and values for every head, or give all heads the same positions."
            )
        if self.transforms and torch.is_grad_enabled():
            key = self._without_unseen(key, at)
        for transform in self.transforms:
            query, key = transform.query(query, at), transform.key(key, at)
        return query, key, at

    def _without_unseen(self, key: Tensor, at: Positions) -> Tensor:
        """Keys with zeros in place of those that no query sees, if some are not finite: their gradients are 0, and
        0 · NaN would reach the weights of a transform.
        """
        if traced() or nothing_to_silence(self.visibility, at) or finite(key):
            return key
        visible = visible_keys(self.visibility, at, max(1, BLOCK // max(1, key.shape[2])))
        if visible.shape[1] > key.shape[1]:  # groups of heads share keys
            visible = visible.unflatten(1, (key.shape[1], -1)).any(2)
        return torch.where(visible.mT, key, 0.0)

    def _positions(self, query: Tensor, key: Tensor, value: Tensor, at: Positions | None) -> Positions:
        check.require_tensors(query, key, value)
        if at is not None:
            require_places(at, query, key)
            return at
        queries, keys = query.shape[2], key.shape[2]
        if queries != keys:
            self._require_no_comparison(queries, keys)
        return Positions.plain(queries, keys, query.device)

    @torch.no_grad()
    def _require_parts(self, query: Tensor, key: Tensor, at: Positions) -> None:
        """Raise TypeError or ValueError for a bias, a rule or positions that answer for other heads, examples or keys.

        Each part is asked about the first query, which stands for all.
        """
        check.require_one_device(query=query.device, key=key.device, at=at.device)
        require_facts(at, query, key)
        if not query.shape[2] or not key.shape[2]:
            return
        first, sizes = at.rows(slice(0, 1)), (*query.shape[:2], 1, key.shape[2])
        for name, part in (("bias", self.bias), ("reweight", self.reweight), ("visibility", self.visibility)):
            if part is not None:
                check.require_answer(name, part(first), sizes)

    @torch.no_grad()
    def _require_score(self, query: Tensor, key: Tensor, at: Positions) -> None:
        """Raise as a run would for vectors that the score was not made for: it is asked about one pair."""
        if at.previous is None and not isinstance(self.score, FeedbackScore):
            pair = at.rows(slice(0, 1)).columns(slice(0, 1))
            biased_scores(self, query[:, :, :1], share_heads(key[:, :, :1], query.shape[1]), at=pair)

    @torch.no_grad()
    def _require_features(self, query: Tensor, key: Tensor, key_features: Tensor) -> None:
        """Raise ValueError for key features that this score did not make of these keys."""
        if self.transforms or not isinstance(self.score, KeyedScore):
            why = f"{type(self.score).__name__} makes none"
            why = "transforms change keys where they stand" if self.transforms else why
            raise ValueError(
                f"`key_features` are given, but {why}: nothing can be kept. Leave them out, or pass what "
                "attention.key_features(key) gives."
            )
        width = self.score.key_features(share_heads(key[:1, :, :1], query.shape[1])).shape[-1]
        check.require_features(self.score, key_features, (*query.shape[:2], key.shape[2], width))

    def _require_no_comparison(self, queries: int, keys: int) -> None:
        """The positions of queries and keys may be left out only if no part of the attention reads them."""
        placed: dict[str, object] = {"The bias": self.bias, "The weighting": self.reweight}
        placed["A transform"] = self.transforms
        if is_placed(self.score):
            placed[type(self.score).__name__] = self.score
        rule = next((name for name, part in placed.items() if part), str(self.visibility))
        if self.visibility.reads_query_position or any(placed.values()):
            raise ValueError(
                f"{rule} compares positions, but {queries} queries and {keys} keys do not say "
                "where they stand. Pass at=Positions.of(query=..., key=..., query_start=...)."
            )
