"""The name of the cross-attention that serves as alignment."""

from dataclasses import dataclass
from typing import Literal

Moment = Literal["producing", "consuming"]


@dataclass(frozen=True)
class Head:
    """The cross-attention that an alignment shows, where a model has several, and the step that it is taken from.

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
        """The head that options name. Missing options are the model's own, except that another layer's head is the
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
