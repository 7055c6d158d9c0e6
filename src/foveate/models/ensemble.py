"""Several encoder–decoders that write one translation together."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.data.batch import Batch
from foveate.errors import UsageError
from foveate.models.seq2seq import Seq2Seq

States = tuple[Any, ...]
"""The state of each member."""


class Ensemble(Seq2Seq[States]):
    """p(y_t | y_<t, x) = 1/n Σ_i p_i(y_t | y_<t, x)

    Members may differ in everything but their vocabularies; each keeps its own state. Logits are the logarithms of the
    mean. Raises UsageError for fewer than two members, and when vocabularies differ in size.

    Reference: Sutskever et al. 2014, section 3.6; Luong et al. 2015, section 4.
    """

    def __init__(self, members: Sequence[Seq2Seq[Any]]) -> None:
        super().__init__()
        if len(members) < 2:
            raise UsageError(f"An ensemble needs two models or more, and has {len(members)}.")
        self.members = nn.ModuleList(members)
        limits = [member.max_length for member in members if member.max_length is not None]
        self.max_length = min(limits, default=None)

    def forward(self, source: Batch, target: Batch) -> Float[Tensor, "tokens vocab"]:
        return mean_log_probability([member(source, target) for member in self.members])

    def start(self, source: Batch, beam: int = 1) -> States:
        return tuple(member.start(source, beam) for member in self._each)

    def step(self, state: States, token: Int[Tensor, " rows"]) -> tuple[States, Float[Tensor, "rows vocab"]]:
        steps = [member.step(own, token) for member, own in zip(self._each, state, strict=True)]
        return tuple(own for own, _ in steps), mean_log_probability([logits for _, logits in steps])

    def select(self, state: States, rows: Int[Tensor, " new_rows"]) -> States:
        return tuple(member.select(own, rows) for member, own in zip(self._each, state, strict=True))

    def reorder(self, state: States, rows: Int[Tensor, " new_rows"]) -> States:
        return tuple(member.reorder(own, rows) for member, own in zip(self._each, state, strict=True))

    @property
    def _each(self) -> list[Seq2Seq[Any]]:
        return list(self.members)  # type: ignore[arg-type]


def mean_log_probability(logits: Sequence[Float[Tensor, "rows vocab"]]) -> Float[Tensor, "rows vocab"]:
    """ln (1/n Σ_i softmax(z_i)), in float32 at least.

    >>> mean_log_probability([torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, -torch.inf]])]).exp()
    tensor([[0.7500, 0.2500]])
    """
    sizes = sorted({each.shape[-1] for each in logits})
    if len(sizes) > 1:
        raise UsageError(
            f"The models of an ensemble have vocabularies of {' and '.join(map(str, sizes))} tokens. Take models "
            "with the same tokenisers."
        )
    total: Tensor | None = None
    for each in logits:
        precise = each.to(torch.promote_types(each.dtype, torch.float32)).log_softmax(-1)
        total = precise if total is None else torch.logaddexp(total, precise)
    assert total is not None
    return total - math.log(len(logits))
