"""Scores, which say how well a query and a key match, e_ij = score(q_i, k_j), and the kinds of their formulas.

A score is any callable on `(query, key)`. The ones here also say which part belongs to the key alone
(`key_features`), so that a decoder computes it once per sentence and not once per word:

    score(q, k) = compare(query_features(q), key_features(k))

A score answers `form()` with a `Product` of features or a `PairNetwork` over them, so that kernels, edges, traces and
other engines can compute it their own way. A score without a form, or with None for one, is computed as it stands:
exact, but pair by pair.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeGuard, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from foveate.attention.check import require_equal_width, require_made_for
from foveate.attention.claim import claim, describes
from foveate.attention.onnx import Graph
from foveate.attention.position import Positions


@runtime_checkable
class Score(Protocol):
    """Any callable that scores every query against every key."""

    def __call__(
        self, query: Float[Tensor, "batch heads query query_dim"], key: Float[Tensor, "batch heads key key_dim"]
    ) -> Float[Tensor, "batch heads query key"]: ...


@runtime_checkable
class KeyedScore(Protocol):
    """A score with a part that the key alone decides, to be computed once and kept."""

    def key_features(
        self, key: Float[Tensor, "batch heads key key_dim"]
    ) -> Float[Tensor, "batch heads key feature"]: ...


@runtime_checkable
class FactoredScore(Score, KeyedScore, Protocol):
    """A score that compares features of queries with features of keys."""

    def query_features(
        self, query: Float[Tensor, "batch heads query query_dim"]
    ) -> Float[Tensor, "batch heads query feature"]: ...

    def compare(
        self,
        query_features: Float[Tensor, "batch heads query feature"],
        key_features: Float[Tensor, "batch heads key feature"],
    ) -> Float[Tensor, "batch heads query key"]: ...


@runtime_checkable
class EdgeScore(FactoredScore, Protocol):
    """A score that can also compare rows in pairs: the two ends of each edge."""

    def pairs(
        self,
        query_features: Float[Tensor, "batch heads edges query_feature"],
        key_features: Float[Tensor, "batch heads edges key_feature"],
    ) -> Float[Tensor, "batch heads edges"]: ...


@runtime_checkable
class PlacedScore(Protocol):
    """A score that also depends on where queries and keys stand.

    One that is a `KeyedScore` too is handed what it made of the keys as `key_features=`.
    """

    def scores_at(
        self,
        query: Float[Tensor, "batch heads query query_dim"],
        key: Float[Tensor, "batch heads key key_dim"],
        at: Positions,
    ) -> Float[Tensor, "batch heads query key"]: ...


def is_placed(score: object) -> TypeGuard[PlacedScore]:
    """Whether a score is a `PlacedScore`, in a tenth of the time of `isinstance`: every call asks.

    A wrapper, such as that of torch.compile, has the attributes of what it wraps by a `__getattr__` of its own.
    """
    kind = type(score)
    if hasattr(kind, "scores_at") or "scores_at" in getattr(score, "__dict__", ()):
        return True
    passes_on = getattr(kind, "__getattr__", nn.Module.__getattr__) is not nn.Module.__getattr__
    return passes_on and hasattr(score, "scores_at")


CALLED = ("__call__", "forward")
FEATURES = ("query_features", "key_features")
SCORED = (*CALLED, "compare", "scores_at", "pairs")
"""Methods that compute scores."""


def is_factored(score: object) -> TypeGuard[FactoredScore]:
    """Whether `compare` of the features is the score: no subclass overrides it, and no hook changes it."""
    kind = type(score)
    return all(hasattr(kind, part) and describes(score, part, CALLED) for part in (*FEATURES, "compare"))


def symbol_of(score: object, head_dim: int) -> str:
    """A score in a formula: by its own `symbol`, else by the name of its class."""
    symbol = claim(score, "symbol")
    return str(symbol(head_dim)) if callable(symbol) else type(score).__name__


def uniform(*shape: int, fan_in: int) -> nn.Parameter:
    """Weights to be trained, drawn between −1/√fan_in and 1/√fan_in."""
    return nn.Parameter(torch.empty(shape).uniform_(-(fan_in**-0.5), fan_in**-0.5))


def project(x: Tensor, weight: Tensor) -> Tensor:
    """x · W with a matrix per head; one matrix for all heads makes one product instead of one per example."""
    require_made_for(x, weight)
    return x @ (weight.reshape(weight.shape[-2:]) if weight.shape[0] == 1 else weight)


Features = Callable[[Tensor], Tensor]
"""From `batch heads length dim` to `batch heads length feature`."""


class Product(NamedTuple):
    """scores = scale · query_features(q) · key_features(k)ᵀ

    A side without features is multiplied as it is, and nothing is copied.
    """

    query_features: Features | None = None
    key_features: Features | None = None
    """The same as the score's own `key_features`, where it has one."""
    scale: float | Tensor | Callable[[int], float | Tensor] = 1.0
    """A number, or a function of the features' width; a number that is learnt is a tensor."""
    features_at: Callable[[Positions], Tensor] | None = None
    """In place of the keys' features: those of the places where keys stand, `#batch #heads key feature`."""

    @property
    def is_plain(self) -> bool:
        """Whether queries and keys are multiplied as they are."""
        return self.query_features is None and self.key_features is None and self.features_at is None

    @property
    def depends_on_places(self) -> bool:
        """Whether scores depend on where queries and keys stand."""
        return self.features_at is not None

    def of_query(self, query: Tensor) -> Tensor:
        """The features of queries."""
        return query if self.query_features is None else self.query_features(query)

    def of_key(self, key: Tensor) -> Tensor:
        """The features of keys."""
        return key if self.key_features is None else self.key_features(key)

    def factor(self, width: int) -> float | Tensor:
        """The factor of the products of features of this width."""
        return self.scale(width) if callable(self.scale) else self.scale

    def compare(
        self, query: Float[Tensor, "*heads query feature"], key: Float[Tensor, "*heads key feature"]
    ) -> Float[Tensor, "*heads query key"]:
        """Scores from the features of both sides."""
        return self._scaled(query) @ key.mT

    def pairs(
        self, query: Float[Tensor, "batch heads edges feature"], key: Float[Tensor, "batch heads edges feature"]
    ) -> Float[Tensor, "batch heads edges"]:
        """Scores of rows in pairs: the two ends of each edge."""
        return (self._scaled(query) * key).sum(-1)

    def header(self, width: int) -> dict[str, Any]:
        """The entries that the header of a trace has beside the features of both sides."""
        return {"kind": "product", "factor": self._number(width)}

    def tensors(self) -> dict[str, Tensor]:
        """The tensors that a trace keeps beside the features of both sides."""
        return {}

    def onnx(self, graph: Graph, query: str, key: str, width: int) -> str:
        """Scores from the features of both sides."""
        factor = self._number(width)
        scaled = query if factor == 1.0 else graph.op("Mul", query, graph.number(factor))
        return graph.op("MatMul", scaled, graph.turned(key, 0, 1, 3, 2))

    def _number(self, width: int) -> float:
        factor = self.factor(width)
        return _single(factor).item() if isinstance(factor, Tensor) else factor

    def scaled(self, query: Tensor) -> tuple[Tensor, float]:
        """Queries and the number that multiplies products; a scale that is learnt is multiplied into the queries."""
        factor = self.factor(query.shape[-1])
        return (query * _single(factor).to(query.dtype), 1.0) if isinstance(factor, Tensor) else (query, factor)

    def _scaled(self, query: Tensor) -> Tensor:
        query, factor = self.scaled(query)
        return query if factor == 1.0 else query * factor


def _single(factor: Tensor) -> Tensor:
    """The one number of a scale that is a tensor; raises ValueError where it holds several."""
    if factor.numel() != 1:
        raise ValueError(
            f"The scale of a product is a tensor of shape {tuple(factor.shape)}, and must be one number. "
            "Multiply several into what `query_features` gives."
        )
    return factor.reshape(())


class PairNetwork(NamedTuple):
    """scores = vᵀ act(query_features(q) + key_features(k)), with act = tanh or a leaky ReLU

    Without a vector, both sides have one feature, and act(…) is the score. What the methods mean stands in `Product`.
    """

    query_features: Features | None = None
    key_features: Features | None = None
    vector: Float[Tensor, "#heads feature"] | None = None
    slope: float | None = None
    """The slope of the leaky ReLU below 0; None: tanh."""
    between: Callable[[Tensor, Positions], Tensor] | None = None
    """A third term, from queries and positions: what is added for each pair, `#batch #heads query key feature`."""

    @property
    def depends_on_places(self) -> bool:
        return self.between is not None

    def of_query(self, query: Tensor) -> Tensor:
        return query if self.query_features is None else self.query_features(query)

    def of_key(self, key: Tensor) -> Tensor:
        return key if self.key_features is None else self.key_features(key)

    @property
    def num_terms(self) -> int:
        """The count of numbers that are made of each pair."""
        return 1 if self.vector is None else self.vector.shape[-1]

    def require_agreement(self, score: object, query: Tensor, key: Tensor) -> None:
        """Raise ValueError for features and a vector of different widths or heads, which kernels would read beyond."""
        vector = query.new_empty(1, 1) if self.vector is None else self.vector
        shape, others, units = query.shape, key.shape, vector.shape
        widths = len(shape) == len(others) == 4 and len(units) == 2 and shape[3] == others[3] == units[1]
        if widths and others[0] in (1, shape[0]) and others[1] in (1, shape[1]) and units[0] in (1, shape[1]):
            return
        raise ValueError(
            f"The form of {type(score).__name__} has query features of shape {tuple(shape)}, key features of shape "
            f"{tuple(others)} and a vector of shape {tuple(units)}: the last axis must be equal in all of them, and "
            "key features and vector need the heads of the queries, or 1. Change what `form()` returns."
        )

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        hidden = self.activated(query[..., :, None, :] + key[..., None, :, :])
        if self.vector is None:
            return hidden[..., 0]
        vector = self.vector.to(hidden.dtype)
        return hidden @ vector[0] if len(vector) == 1 else (hidden * vector[:, None, None, :]).sum(-1)

    def pairs(self, query: Tensor, key: Tensor) -> Tensor:
        hidden = self.activated(query + key)
        return hidden[..., 0] if self.vector is None else (hidden * self.vector.to(hidden.dtype)[:, None, :]).sum(-1)

    def activated(self, x: Tensor) -> Tensor:
        """tanh or the leaky ReLU."""
        return torch.tanh(x) if self.slope is None else leaky_relu(x, self.slope)

    def header(self, width: int) -> dict[str, Any]:
        return {"kind": "additive"} if self.slope is None else {"kind": "leaky", "slope": self.slope}

    def tensors(self) -> dict[str, Tensor]:
        vector = torch.ones(1, 1) if self.vector is None else self.vector
        return {"vector": vector.detach().float().cpu()}

    def onnx(self, graph: Graph, query: str, key: str, width: int) -> str:
        both = graph.op("Add", graph.op("Unsqueeze", query, graph.whole(3)), graph.op("Unsqueeze", key, graph.whole(2)))
        activated = graph.op("Tanh", both) if self.slope is None else graph.op("LeakyRelu", both, alpha=self.slope)
        if self.vector is not None:
            activated = graph.op("MatMul", activated, graph.weight(self.vector[:, None, :, None]))
        return graph.op("Squeeze", activated, graph.whole(4))


Form = Product | PairNetwork


def form_of(score: object) -> Form | None:
    """The form of a score; None where it has none, or where a subclass, a hook or a method that was put into the object
    computes something else.

    A form is a promise: paths compute it in place of the score.

    >>> from foveate.attention import Dot, GATScore
    >>> class Capped(Dot):
    ...     def __call__(self, query, key):
    ...         return super().__call__(query, key).tanh()
    >>> form_of(Dot()).is_plain, form_of(GATScore(dim=4)).num_terms, form_of(Capped())
    (True, 1, None)
    """
    method = getattr(type(score), "form", None)
    if not callable(method):
        return None
    reads_features = method is ProductScore.form or method is PairScore.form
    if not describes(score, "form", SCORED if reads_features else (*SCORED, *FEATURES)):
        return None
    form: Form | None = checked_form(score)
    if form is not None and not isinstance(form, (Product, PairNetwork)):
        raise TypeError(
            f"{type(score).__name__}.form() gives {type(form).__name__}. Return a Product, a PairNetwork, or None for "
            "a score that is neither."
        )
    return form


@torch.no_grad()
def require_true_form(score: Any, query: Tensor, key: Tensor) -> None:
    """Raise ValueError for a user's score whose form gives other numbers than the score, for two queries and two keys.

    Both are computed with the same random numbers, in case the score draws some.
    """
    form = None if type(score).__module__.startswith("foveate.") else form_of(score)
    if form is None or form.depends_on_places or query.is_meta or not query.numel() or not key.numel():
        return
    query, key = query[:1, :, :2], key[:1].repeat_interleave(query.shape[1] // key.shape[1], 1)[:, :, :2]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        scores = score(query, key)
        torch.manual_seed(0)
        features = form.of_query(query), form.of_key(key)
    if isinstance(form, PairNetwork):
        form.require_agreement(score, *features)
    if features[0].shape[-1] != features[1].shape[-1]:
        return  # the path that multiplies them names their widths
    by_form = form.compare(*features)
    half = torch.is_autocast_enabled(query.device.type)
    limit = torch.finfo(torch.bfloat16 if half else query.dtype).eps ** 0.5
    error = float((by_form - scores).abs().max())
    if error > limit * (1 + float(scores.abs().max())):
        name = type(score).__name__
        raise ValueError(
            f"{name}.form() is not the formula of {name}: the first scores differ by {error:.3g}. Let the form say "
            "what the score computes, or leave `form` out: the score is then computed as it is, pair by pair."
        )


def checked_form(score: Any) -> Any:
    """The form of a score that a path has accepted: `form_of` has checked it, and calls do not check it again."""
    return score.form()


def dot_factor(score: object, width: int) -> float | None:
    """The factor of q · k of vectors of this width; None for a score that is not a plain dot product."""
    form = form_of(score)
    factor = form.factor(width) if isinstance(form, Product) and form.is_plain else None
    return None if isinstance(factor, Tensor) else factor


def form_from(header: Mapping[str, Any], vector: Tensor | None) -> Form:
    """The form behind the header of a trace, with the vector that was kept beside it."""
    if header["kind"] == "product":
        return Product(scale=header["factor"])
    return PairNetwork(vector=vector, slope=header.get("slope"))


def terms(score: object) -> int:
    """Numbers that a score makes of each pair before it adds them up: the hidden units of a network over pairs."""
    form = getattr(score, "form", None)
    named = form() if callable(form) else None
    return named.num_terms if isinstance(named, PairNetwork) else 1


class _FeatureScore(nn.Module):
    """compare(query_features(q), key_features(k)), where `form` says how features are compared."""

    def query_features(self, query: Tensor) -> Tensor:
        return query

    def key_features(self, key: Tensor) -> Tensor:
        return key

    def form(self) -> Form:
        raise NotImplementedError

    def compare(self, query_features: Tensor, key_features: Tensor) -> Tensor:
        require_equal_width(type(self).__name__, query_features, key_features)
        return self.form().compare(query_features, key_features)

    def pairs(self, query_features: Tensor, key_features: Tensor) -> Tensor:
        return self.form().pairs(query_features, key_features)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return self.compare(self.query_features(query), self.key_features(key))


class ProductScore(_FeatureScore):
    """score(q, k) = factor · query_features(q) · key_features(k)

    A base for scores of your own: write the features of one side or of both, and the score runs on every path for dot
    products, in memory linear in the length, and is small in a trace.

    >>> class Positive(ProductScore):
    ...     def key_features(self, key):
    ...         return key.relu()
    >>> Positive()(torch.tensor([[[[1.0, 2.0]]]]), torch.tensor([[[[3.0, -4.0]]]])).item()
    3.0
    """

    def factor(self, width: int) -> float | Tensor:
        """The scale, for features of this width."""
        return 1.0

    def form(self) -> Product:
        return Product(self.query_features, self.key_features, self.factor)


class PairScore(_FeatureScore):
    """score(q, k) = vᵀ act(query_features(q) + key_features(k)), with act = tanh, or a leaky ReLU of a `slope`

    A base for small networks over pairs of your own: write the features, and set `vector`.
    """

    vector: Float[Tensor, "#heads feature"]
    slope: float | None = None

    def form(self) -> PairNetwork:
        return PairNetwork(self.query_features, self.key_features, self.vector, self.slope)
