"""Which of a model's cross-attentions stands for the alignment, and at which step."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from foveate.attention import AttentionRecord
from foveate.errors import UsageError
from foveate.inspect.trace.site import titled

Moment = Literal["producing", "consuming"]


@dataclass(frozen=True)
class Head:
    """Which cross-attention an alignment shows, where a model has several, and when.

    By default the mean over the heads of the layer before the last: a Transformer's last layer looks ahead to what
    comes next, and the one before it usually aligns best.

    A word's row is the one that is computed while the word is *produced*, when the decoder does not know it yet; or the
    one after, while it is *consumed* as the decoder's next input, when Luong's model and the Transformer do know it.
    Bahdanau's score sees the state before the step: it knows a word one step later still, so only producing makes
    sense there.
    """

    layer: int | None = None
    head: int | None = None
    when: Moment = "producing"

    @classmethod
    def wanted(cls, layer: int | None, head: int | None, when: Moment | None, own: "Head") -> "Head":
        """What options name. What they leave open is the model's own, but for the head of another layer: that is the
        mean.

        >>> own = Head(1, 3, "consuming")
        >>> for options in ((None, None, None), (None, 5, None), (0, None, None), (None, None, "producing")):
        ...     print(Head.wanted(*options, own))
        layer 1, head 3, consuming
        layer 1, head 5, consuming
        layer 0, mean of heads, producing
        layer 1, head 3, producing
        """
        if layer is not None:
            return cls(layer, head, when or "producing")
        return cls(own.layer, own.head if head is None else head, when or own.when)

    def __str__(self) -> str:
        layer = "" if self.layer is None else f"layer {self.layer}, "
        return f"{layer}{'mean of heads' if self.head is None else f'head {self.head}'}, {self.when}"


def crossings(records: Iterable[AttentionRecord], shape: tuple[int, int] | None = None) -> list[AttentionRecord]:
    """The records of a decoder that looked at its source, layers in their order.

    An encoder may look across at something of its own. With `shape`, only maps of that size: projected keys stand for
    no token.
    """
    sites = [site for site in records if site.kind == "cross" and not site.name.startswith("encoder.")]
    return [site for site in sites if shape is None or site.shape[2:] == shape]


def choose(records: Sequence[AttentionRecord], head: Head) -> Float[Tensor, "batch target source"]:
    """One map a sentence, with a row for every step, whatever `head.when` is.

    Raises UsageError when there is no such head.
    """
    if not records:
        raise UsageError("This model has no attention to look at: it reads the source through one fixed vector.")
    layer = max(len(records) - 2, 0) if head.layer is None else head.layer
    if not -len(records) <= layer < len(records):
        raise UsageError(f"There is no layer {layer}: the model has {len(records)}, counted from 0.")
    weights = records[layer].weights()
    if head.head is None:
        return weights.mean(1)
    if not -weights.shape[1] <= head.head < weights.shape[1]:
        raise UsageError(
            f"There is no head {head.head}: layer {layer} ({titled(records[layer].name)}) has {weights.shape[1]}, "
            "counted from 0."
        )
    return weights[:, head.head]
