"""The Recurrent Attention Network reads long documents window by window, at a cost linear in their length."""

from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention import Recording, record
from foveate.attention.check import lengths as as_lengths
from foveate.attention.check import require_positive
from foveate.config.field import setting
from foveate.nn.packing import Packing
from foveate.nn.ran_layer import RANLayer, RANLayerConfig, RANOutput, RANState
from foveate.nn.ran_window import Windows


@dataclass(frozen=True, kw_only=True)
class RANConfig(RANLayerConfig):
    """A stack of recurrent attention layers (Li et al. 2023)."""

    num_layers: int = 2
    residual: bool = setting(False, "x + layer(x), as in published stacks of more than two layers")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(num_layers=self.num_layers)

    def build(self) -> "RAN":
        return RAN(self)


@dataclass(frozen=True, eq=False)
class RANExplanation:
    """The attention weights of one layer."""

    windows: Float[Tensor, "batch windows heads row key"]
    """Weights within each window; row and key 0 are the cell."""
    review: Float[Tensor, "batch length cells"] | None
    """Weights of each token over the cells of the windows; None without `review`."""


class RAN(nn.Module):
    """A stack of recurrent attention layers; each reads the tokens of the layer below.

    As published, a layer begins with the last cell of the layer below, which has read the whole document. In `causal`
    or `streaming` stacks every layer begins with its own first cell.

    A document in pieces of whole windows (the last may end anywhere) gives the same result as in one piece:

    >>> ran = RANConfig(model_dim=8, num_heads=2, head_dim=4, window=3, causal=True).build().eval()
    >>> x = torch.randn(1, 8, 8)
    >>> whole, state = ran(x), ran.start(1)
    >>> for piece in (x[:, :3], x[:, 3:]):
    ...     output = ran.extend(piece, state)
    ...     state = output.state
    >>> torch.allclose(output.document, whole.document, atol=1e-6)
    True

    Reference: Li et al. 2023, "Recurrent Attention Networks for Long-text Modeling".
    """

    def __init__(self, config: RANConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(
            RANLayer(config, begins=index == 0 or config.looks_back) for index in range(config.num_layers)
        )

    def forward(
        self,
        x: Float[Tensor, "batch length model_dim"],
        lengths: Int[Tensor, " batch"] | None = None,
        *,
        cell: Float[Tensor, "batch model_dim"] | None = None,
        prefix: Int[Tensor, " batch"] | None = None,
    ) -> RANOutput:
        """Process whole documents, right-padded to the same length; outputs at padding are zero.

        `cell` is an initial vector, such as that of the document before. With `prefix` lengths, a causal network sees
        the first tokens of each document without causality.

        Raises ValueError for a prefix if the network is not causal.
        """
        if prefix is not None and not self.config.causal:
            raise ValueError("`prefix` is for causal networks, but this network sees whole windows. Leave it out.")
        windows = self._cut(x, lengths)
        return self._through(x, windows, self.start(len(x), cell), prefix)

    def start(self, batch: int, cell: Float[Tensor, "batch model_dim"] | None = None) -> tuple[RANState, ...]:
        """The initial state of every layer, for networks whose layers begin with their own cell."""
        first, *others = self._layers
        return (first.start(batch, cell), *(layer.start(batch) for layer in others if self.config.looks_back))

    def extend(
        self,
        x: Float[Tensor, "batch length model_dim"],
        state: tuple[RANState, ...],
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> RANOutput:
        """Process the next piece of every document and return the state after it.

        Raises ValueError if pieces cannot give the result of the whole: the network looks ahead, or a document
        continues after a piece that ended within a window.
        """
        config = self.config
        if not config.looks_back or config.windows != "grid":
            raise ValueError(
                "This network attends to whole documents and cannot process pieces. "
                'Build it with causal=True or streaming=True, and windows="grid".'
            )
        windows = self._cut(x, lengths)
        if bool(((state[0].lengths % config.window > 0) & windows.token.any(1)).any()):
            raise ValueError(
                f"A document continues after {state[0].lengths.tolist()} tokens, but only its last piece may end "
                f"within a window. Pass pieces of a multiple of {config.window} tokens."
            )
        return self._through(x, windows, state, None)

    @torch.no_grad()
    def explain(
        self,
        x: Float[Tensor, "batch length model_dim"],
        lengths: Int[Tensor, " batch"] | None = None,
        *,
        prefix: Int[Tensor, " batch"] | None = None,
    ) -> tuple[RANExplanation, ...]:
        """The weights of every window and of the review, layer by layer.

        Raises ValueError for documents without a token, which have no window.
        """
        with record(self) as recording:
            self(x, lengths, prefix=prefix)
        windows = self._cut(x, lengths)
        if windows.count == 0:
            raise ValueError("These documents have no token, so there is no window to explain.")
        return tuple(_explained(recording, f"layers.{index}", windows) for index in range(len(self.layers)))

    def _through(
        self,
        x: Float[Tensor, "batch length model_dim"],
        windows: Windows,
        state: tuple[RANState, ...],
        prefix: Int[Tensor, " batch"] | None,
    ) -> RANOutput:
        folded, after = windows.fold(x), list[RANState]()
        for index, layer in enumerate(self._layers):
            before = state[index] if index < len(state) else layer.start(len(x), after[-1].global_cell)
            output, reached = layer(folded, windows, before, prefix)
            folded = folded + output if self.config.residual else output
            after.append(reached)
        return RANOutput(windows.unfold(folded), self._layers[-1].document(after[-1]), tuple(after))

    def _cut(self, x: Float[Tensor, "batch length model_dim"], lengths: Int[Tensor, " batch"] | None) -> Windows:
        if x.dim() != 3 or x.shape[2] != self.config.model_dim:
            raise ValueError(
                f"`x` has shape {tuple(x.shape)}, but this network takes `batch length model_dim` with "
                f"model_dim={self.config.model_dim}. Without a batch, insert an axis: x[None]."
            )
        if lengths is None:
            lengths = torch.full((len(x),), x.shape[1], device=x.device)
        lengths = as_lengths("lengths", lengths)
        if len(lengths) != len(x) or (len(x) and int(lengths.max()) > x.shape[1]):
            raise ValueError(
                f"`lengths` are {lengths.tolist()}, but there are {len(x)} documents of up to {x.shape[1]} tokens, "
                "padding included. Pass the true length of each."
            )
        config = self.config
        joins = config.published or config.windows == "merge_tail"
        return Windows(
            lengths,
            x.shape[1],
            window=config.window,
            min_window=config.min_window if joins else 1,
            padded=config.published,
        )

    @property
    def _layers(self) -> tuple[RANLayer, ...]:
        return cast(tuple[RANLayer, ...], tuple(self.layers))


class RANEncoder(nn.Module):
    """A recurrent attention network over packed tokens, as an encoder.

    >>> encoder = RANEncoder(RANConfig(model_dim=8, num_heads=2, head_dim=4, window=3))
    >>> encoder(torch.randn(7, 8), packing=Packing(torch.tensor([2, 5]), 5)).shape
    torch.Size([7, 8])
    """

    def __init__(self, config: RANConfig) -> None:
        super().__init__()
        self.network = RAN(config)

    def forward(self, x: Float[Tensor, "tokens model_dim"], *, packing: Packing) -> Float[Tensor, "tokens model_dim"]:
        return packing.pack(self.network(packing.unpack(x), packing.lengths).tokens)


def _explained(recording: Recording, name: str, windows: Windows) -> RANExplanation:
    def weights(site: str) -> list[Tensor]:
        return [one.weights() for one in recording if one.name == f"{name}.{site}"]

    tokens = weights("token_attention")[0].unflatten(0, (windows.batch, windows.count))
    rows = torch.cat([torch.stack(weights("cell_attention"), 1), tokens], 3)
    reviews = [one[:, 0].unflatten(1, (windows.count, windows.width)) for one in weights("review.attention")]
    return RANExplanation(rows, windows.unfold(reviews[0]) if reviews else None)
