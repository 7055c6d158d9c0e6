"""The choice of the cross-attention that serves as alignment."""

from dataclasses import dataclass
from typing import Literal

from foveate.config import require_choices, setting

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


@dataclass(frozen=True, kw_only=True)
class GuideConfig:
    """The attention that follows the links of the data, and the weight of this loss. Without links it is unused."""

    weight: float = setting(1.0, "of guidance beside the cross-entropy of the words")
    layer: int | None = setting(None, "the decoder's layer that is guided, from 0; none: the one before the last")
    head: int | None = setting(None, "the head that is guided, from 0; none: the mean of the layer's heads")
    when: Moment = setting("producing", "guide the row that produces a word, or the one that consumes it")

    def __post_init__(self) -> None:
        require_choices(self)
        if not self.weight > 0:
            raise ValueError(f"weight must be above 0, got {self.weight}. Leave the links out to train without")

    @property
    def place(self) -> Head:
        return Head(self.layer, self.head, self.when)
