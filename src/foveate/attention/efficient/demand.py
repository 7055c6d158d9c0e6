"""The demands of a rule on a formula without a weight for each pair: it can be causal, and leave out some keys."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from foveate.attention.position import Positions
from foveate.attention.visibility import TRIANGLE, Visibility
from foveate.attention.visibility.rule import require_visibility


@dataclass(frozen=True)
class Demand:
    """A conjunction, sorted into rules that such formulas can honour and others.

    >>> from foveate.attention import causal, padding, window
    >>> demand = demand_of(causal() & padding() & window(left=2, right=2))
    >>> demand.causal, demand.others
    (False, (window(left=2, right=0),))
    """

    causal: bool
    of_keys: tuple[Visibility, ...]
    """Rules that hide a key from all queries or from none."""
    others: tuple[Visibility, ...]

    def keys(self, at: Positions) -> Bool[Tensor, "#batch #heads 1 key"]:
        """Keys that these rules hide from no query."""
        visible = torch.ones(1, 1, 1, at.key.shape[-1], dtype=torch.bool, device=at.device)
        for rule in self.of_keys:
            visible = visible & rule(at)
        return visible


def demand_of(rule: Visibility) -> Demand:
    require_visibility(rule)
    of_keys = tuple(part for part in rule.parts if not part.reads_query_position)
    others = tuple(part for part in rule.parts if part.reads_query_position and part.band != TRIANGLE)
    return Demand(any(part.band == TRIANGLE for part in rule.parts), of_keys, others)


def require(mechanism: str, rule: Visibility, *, may_be_causal: bool, way_out: str) -> None:
    """Raise ValueError for a rule that is more than causal() and rules about keys, TypeError for a non-rule."""
    demand = demand_of(rule)
    unmet = [*(["causal()"] if demand.causal and not may_be_causal else []), *map(str, demand.others)]
    if unmet:
        raise ValueError(f"{mechanism} cannot honour {' & '.join(unmet)}: {way_out}")
