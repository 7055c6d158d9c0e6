"""Places that hard attention draws while a decoder writes, as a function of the example and the step."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from foveate.attention import Attention, Hard


@dataclass(frozen=True, eq=False)
class Glimpses:
    """s_t ~ Multinoulli(α_t): the place of each example at each step, in place of the largest weight's.

    `uniform` gives numbers from 0 to 1, without 1, that depend on the number of an example and on the step alone. So a
    place depends neither on the batch nor on the other hypotheses of the example, which share the number.

    >>> half = Glimpses(lambda examples, step: torch.full(examples.shape, 0.5, dtype=torch.float64), torch.arange(1))
    >>> half.places(torch.tensor([[[0.2, 0.7, 0.1], [0.6, 0.0, 0.4]]]), step=0)
    tensor([[1, 0]])

    Reference: Xu et al. 2015, equation 8.
    """

    uniform: Callable[[Int[Tensor, " examples"], int], Float64[Tensor, " examples"]]
    examples: Int[Tensor, " examples"]
    """The number of each example."""

    def select(self, rows: Int[Tensor, " rows"]) -> "Glimpses":
        """Those of the selected examples."""
        return replace(self, examples=self.examples[rows])

    def places(self, distribution: Float[Tensor, "examples beam place"], step: int) -> Int[Tensor, "examples beam"]:
        """The places at which the cumulative distributions pass the numbers."""
        cumulative = distribution.cumsum(-1, dtype=torch.float64)
        number = self.uniform(self.examples, step)[:, None, None].expand(-1, distribution.shape[1], 1)
        # The numbers are scaled by the actual sum, so that rounding cannot move them past the last place.
        place = torch.searchsorted(cumulative, number * cumulative[..., -1:], right=True)
        return place.clamp(max=distribution.shape[-1] - 1)[..., 0]


def draws_places(attention: object) -> bool:
    """Whether this is hard attention that has learnt from draws, so that decoding can draw as well."""
    return isinstance(attention, Attention) and isinstance(attention.normaliser, Hard) and attention.normaliser.is_drawn
