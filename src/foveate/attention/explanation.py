"""The result of `explain`: scores, visibility, weights and the context of one attention."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor

from foveate.attention import display

Shows = Literal["exact", "implied", "projected"]
"""The relation of the weights that are shown to those that are computed with."""
_explaining: ContextVar[bool] = ContextVar("foveate_explaining", default=False)


@contextmanager
def explaining() -> Iterator[None]:
    """Within the context, attentions of this thread compute all weights when they run, like `explain`, and layers do
    not fuse them with other operations. No module changes, so that other threads go on as before.
    """
    token = _explaining.set(True)
    try:
        yield
    finally:
        _explaining.reset(token)


def is_explaining() -> bool:
    return _explaining.get()


@dataclass(frozen=True, eq=False)
class Explanation:
    """Everything on the way from queries and keys to the context, materialised."""

    scores: Float[Tensor, "batch heads query key"]
    visible: Bool[Tensor, "batch heads query key"]
    weights: Float[Tensor, "batch heads query key"]
    context: Float[Tensor, "batch heads query value_head_dim"]
    shows: Shows = "exact"
    """exact: the weights that are computed with; implied: they follow from the formula but are never made when it runs;
    projected: over mixtures of keys, not over keys.
    """

    def __repr__(self) -> str:
        return f"<Explanation: {display.sizes(self.weights.shape)}; {self._facts()}>"

    def _repr_html_(self) -> str:
        """The sizes, and small maps of the first example's heads."""
        facts = f"<p>Explanation: {display.sizes(self.weights.shape)}; {self._facts()}</p>"
        return facts + display.maps(self.weights[0], self.visible[0]) if len(self.weights) else facts

    def _facts(self) -> str:
        pairs = self.visible.numel()
        share = 100 * float(self.visible.sum()) / pairs if pairs else 0.0
        odd = int((~self.weights.isfinite()).sum())
        lost = f", {display.counted(odd, 'weight')} not a number" if odd else ""
        return f"{self.shows} weights, {share:.3g} % of the pairs visible{lost}; context {tuple(self.context.shape)}"
