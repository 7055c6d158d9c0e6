"""The self-attention between the pieces of one text, as one picture for any model."""

from collections.abc import Callable, Sequence

from torch import nn

from foveate.attention.record import record
from foveate.errors import UsageError
from foveate.inspect.alignment import Alignment


def self_attention(
    model: nn.Module, run: Callable[[], object], pieces: Sequence[str], *, layer: int | None = None
) -> Alignment | None:
    """The mean over the heads of one layer's weights while `run` passes one text of these pieces through the model.

    By default this is the layer before the last, which is often the clearest, or the only one. Returns None for a model
    without self-attention, such as a recurrent one. Raises UsageError for a layer that the model does not have.

    >>> import torch
    >>> from foveate import Attention, causal
    >>> site, x = Attention(visibility=causal()), torch.zeros(1, 1, 3, 4)
    >>> alignment = self_attention(site, lambda: site.run(query=x, key=x, value=x), ["I", "saw", "it"])
    >>> print(alignment.weights.round(2))
    [[1.   0.   0.  ]
     [0.5  0.5  0.  ]
     [0.33 0.33 0.33]]
    """
    with record(model) as recording:
        run()
    square = (1, len(pieces), len(pieces))
    sites = [site for site in recording.of_kind("self") if (site.shape[0], *site.shape[2:]) == square]
    if not sites:
        return None
    if layer is not None and not 0 <= layer < len(sites):
        raise UsageError(f"There is no layer {layer}: the model has {len(sites)}, counted from 0.")
    chosen = sites[max(len(sites) - 2, 0) if layer is None else layer]
    return Alignment.of(pieces, pieces, chosen.weights()[0].mean(0).float().cpu().numpy())
