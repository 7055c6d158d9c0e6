"""One layer of the Recurrent Attention Network: attention within windows, and a cell that passes from each to the
next.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad, silu

from foveate.attention import Attention, Positions, causal, padding
from foveate.attention.check import require_positive, require_rates
from foveate.attention.transform import rotated
from foveate.config.field import require_choices, setting
from foveate.nn.dropout import add_dropped
from foveate.nn.linear_layer import Linear
from foveate.nn.ran_gate import Gate, Norm, Standard, standardised
from foveate.nn.ran_review import Review
from foveate.nn.ran_window import Windows


@dataclass(frozen=True, kw_only=True)
class RANLayerConfig:
    """The settings of one layer. The defaults are those of Li et al. 2023."""

    model_dim: int = 512
    num_heads: int = 8
    head_dim: int = setting(128, "need not be model_dim / num_heads")
    window: int = setting(256, "tokens per window")
    windows: Literal["grid", "merge_tail"] = setting(
        "grid", 'windows of equal length, or "merge_tail": a last one shorter than min_window joins the one before'
    )
    min_window: int = 16
    causal: bool = setting(False, "tokens do not see later tokens, for language models")
    streaming: bool = setting(
        False, "use nothing after a window, so that documents can come in pieces; causal implies it"
    )
    review: bool = setting(True, "let tokens attend to the cells of the document's windows")
    norm: Standard = setting("standard", 'true standardisation, or "published": division by the root mean square')
    document: Literal["last", "mean", "max"] = setting("last", "a document's vector: last cell, mean or maximum")
    dropout: float = setting(0.1, "dropout within each gated residual")
    published: bool = setting(
        False,
        "reproduce the published program with its defects: causal cells that see no token, results that depend on "
        "padding, windows by the padded length, and its norm",
    )

    def __post_init__(self) -> None:
        require_choices(self)
        sizes = ("model_dim", "num_heads", "head_dim", "window", "min_window")
        require_positive(**{name: getattr(self, name) for name in sizes})
        require_rates(dropout=self.dropout)
        if self.head_dim % 2:
            raise ValueError(f"head_dim={self.head_dim} must be even: rotary positions rotate pairs of features")
        if self.min_window > self.window and (self.published or self.windows == "merge_tail"):
            raise ValueError(f"min_window={self.min_window} is more than window={self.window}")
        if self.streaming and (self.published or self.windows != "grid"):
            other = "published" if self.published else f'windows="{self.windows}"'
            raise ValueError(
                f"streaming does not work with {other}: a document in pieces must have the windows of the whole one. "
                'Choose windows="grid" without published.'
            )

    @property
    def looks_back(self) -> bool:
        """Whether a token is independent of everything after its window."""
        return not self.published and (self.causal or self.streaming)

    @property
    def standard(self) -> Standard:
        return "published" if self.published else self.norm


@dataclass(frozen=True, eq=False)
class RANState:
    """The state of a layer between two pieces of a document."""

    global_cell: Float[Tensor, "batch model_dim"]
    """G, the cell that enters the next window."""
    previous_cell: Float[Tensor, "batch model_dim"]
    """c of the last window, before the gated residual."""
    cells: Float[Tensor, "batch windows model_dim"]
    """c of all windows so far, for the review."""
    live: Bool[Tensor, "batch windows"]
    """False for a window without a token of the document."""
    lengths: Int[Tensor, " batch"]
    """The number of tokens so far."""


class RANOutput(NamedTuple):
    tokens: Float[Tensor, "batch length model_dim"]
    document: Float[Tensor, "batch model_dim"]
    """The vector of the document so far."""
    state: tuple[RANState, ...]
    """The state of each layer, for `extend`."""


class _Tokens(NamedTuple):
    """The token projections of all windows, computed at once."""

    normed: Float[Tensor, "batch windows width model_dim"]
    query: Float[Tensor, "batch windows heads width head_dim"]
    key: Float[Tensor, "batch windows heads width head_dim"]
    value: Float[Tensor, "batch windows heads width head_dim"]


class RANLayer(nn.Module):
    """Z_i = LN([G_{i−1}; X_i]),  Y_i = LN(f(Attention(Z_i) W_o) + GLU(Z_i)),  c_i, O_i = N(first row), N(others)

    G_i = LN(c_i + GLU(c_{i−1})), and G_1 = c_1; `Review` then lets the tokens attend to the cells c. Queries, keys,
    values and outputs go through f = swish; positions are rotary and restart in every window, with the cell at 0.

    Only the cell's own row depends on the window before. It is computed step by step; the token rows of all windows are
    computed at once. Cost: O(n (W + 1) d) for the windows, O(n m d) for the review, m = ⌈n / W⌉ sequential steps.

    Differences from the published program, unless `published`:

    * `causal`: the cell sees its whole window, and tokens review only the cells of windows before theirs. In the
      published program the cell is row 0 of a triangle: it sees no token, so nothing passes from window to window.
    * A window without a token leaves the cell unchanged and is not reviewed; windows follow the true lengths. In the
      published program, results depend on the padding.
    * N divides by the standard deviation. The published program divides by the root mean square.
    * The first cell is a trained vector, initially zero. The published program uses LN(f(W · 0)), a constant.

    Does the first window reach the second in a causal network, in the published program and here?

    >>> from foveate.nn import RANConfig
    >>> x = torch.randn(1, 8, 8, requires_grad=True)
    >>> for published in (True, False):
    ...     sizes = {"model_dim": 8, "num_heads": 2, "head_dim": 4, "window": 4, "min_window": 1, "num_layers": 1}
    ...     ran = RANConfig(causal=True, published=published, **sizes).build().eval()
    ...     (reached,) = torch.autograd.grad(ran(x).tokens[0, 4:, 0].sum(), x)
    ...     print(bool(reached[0, :4].any()))
    False
    True

    Reference: Li et al. 2023, section 3.
    """

    def __init__(self, config: RANLayerConfig, *, begins: bool = True) -> None:
        """`begins`: whether the layer has its own first cell; otherwise callers pass one."""
        super().__init__()
        self.config = config
        model_dim, inner = config.model_dim, config.num_heads * config.head_dim
        self.initial_cell = nn.Parameter(torch.zeros(model_dim)) if begins else None
        self.input_norm = Norm(model_dim, config.standard)
        self.projection = Linear(model_dim, 3 * inner)
        self.output = Linear(inner, model_dim)
        self.gate, self.attention_norm = Gate(model_dim), Norm(model_dim, config.standard)
        self.cell_gate, self.cell_norm = Gate(model_dim), Norm(model_dim, config.standard)
        rule = causal() & padding() if config.causal else padding()
        self.cell_attention = Attention(visibility=rule if config.published else padding(), kind="self")
        self.token_attention = Attention(visibility=rule, kind="self")
        self.review: Review | Norm
        if config.review:
            self.review = Review(model_dim, config.standard, config.dropout, looks_back=config.looks_back)
        else:
            self.review = Norm(model_dim, config.standard)
        for weight in (*self.projection.weight.chunk(3), self.output.weight):
            nn.init.xavier_uniform_(weight)
        for bias in (self.projection.bias, self.output.bias):
            nn.init.zeros_(bias)

    def start(self, batch: int, cell: Float[Tensor, "batch model_dim"] | None = None) -> RANState:
        """The initial state. `cell` replaces the layer's own first cell.

        Raises ValueError if there is neither.
        """
        if cell is None and self.initial_cell is None:
            raise ValueError("This layer begins with the cell of the layer below. Pass cell=.")
        first = cast(Tensor, self.initial_cell).expand(batch, -1) if cell is None else cell
        none = first.new_zeros(batch, 0, first.shape[1])
        live = torch.zeros(batch, 0, dtype=torch.bool, device=first.device)
        lengths = torch.zeros(batch, dtype=torch.long, device=first.device)
        return RANState(first, torch.zeros_like(first), none, live, lengths)

    def forward(
        self,
        x: Float[Tensor, "batch windows width model_dim"],
        windows: Windows,
        state: RANState,
        prefix: Int[Tensor, " batch"] | None = None,
    ) -> tuple[Float[Tensor, "batch windows width model_dim"], RANState]:
        """Process all windows of a piece. A causal layer sees the `prefix` of each document without causality."""
        if windows.count == 0:
            return x, state
        tokens = self._project_tokens(x)
        at = self._positions(windows, prefix)
        keys, values, state = self._recur(tokens, windows, state, at)
        attended = self._attend_tokens(tokens, keys, values, at)
        if isinstance(self.review, Norm):
            return self.review(attended), state
        return self.review(attended, state.cells, state.live, windows, prefix), state

    def document(self, state: RANState) -> Float[Tensor, "batch model_dim"]:
        """The vector of the document so far."""
        if self.config.document == "last" or state.cells.shape[1] == 0:
            return state.global_cell
        live = state.live[..., None]
        if self.config.document == "max":
            pooled = torch.where(live, state.cells, -torch.inf).amax(1)
        else:
            pooled = torch.where(live, state.cells, 0.0).sum(1) / live.sum(1).clamp(min=1)
        return torch.where(live.any(1), pooled, state.global_cell)

    def _project_tokens(self, x: Float[Tensor, "batch windows width model_dim"]) -> _Tokens:
        normed = self.input_norm(x)
        query, key, value = self._project(normed)
        place = torch.arange(1, x.shape[2] + 1, device=x.device)[None, None]
        query, key = (rotated(part.flatten(0, 1), place).unflatten(0, x.shape[:2]) for part in (query, key))
        return _Tokens(normed, query, key, value)

    def _project(
        self, normed: Float[Tensor, "*shape length model_dim"]
    ) -> tuple[Float[Tensor, "*shape heads length head_dim"], ...]:
        """Queries, keys and values of all heads."""
        parts = silu(self.projection(normed)).unflatten(-1, (3, self.config.num_heads, -1))
        return tuple(part.transpose(-2, -3) for part in parts.unbind(-3))

    def _positions(self, windows: Windows, prefix: Int[Tensor, " batch"] | None) -> Positions:
        """The positions of tokens and keys, with the cell at 0, for a batch of `batch · windows`."""
        if prefix is None or not self.config.causal:
            place = torch.arange(1, windows.width + 1, device=windows.real.device)[None]
        else:
            place = windows.segments(prefix).flatten(0, 1)
        key = pad(place, (1, 0))[:, None, None]
        real = None if windows.full else pad(windows.real, (1, 0), value=True).flatten(0, 1)[:, None, None]
        return Positions(place[:, None, :, None], key, real)

    def _recur(
        self, tokens: _Tokens, windows: Windows, state: RANState, at: Positions
    ) -> tuple[list[Tensor], list[Tensor], RANState]:
        """Compute the cells, window after window: the keys and values of each window's cell, and the final state."""
        cell, previous, begun = state.global_cell, state.previous_cell, (state.lengths > 0)[:, None]
        keys, values, raws = [], [], []
        steps = zip(tokens.key.unbind(1), tokens.value.unbind(1), windows.live.unbind(1), strict=True)
        for (token_key, token_value, live), window_at in zip(steps, _cell_positions(at, windows.count), strict=True):
            normed = self.input_norm(cell)[:, None]
            query, key, value = self._project(normed)
            window_key, window_value = torch.cat([key, token_key], 2), torch.cat([value, token_value], 2)
            context = self.cell_attention.run(query, window_key, window_value, at=window_at)
            raw, live = self._gated(normed, context)[:, 0], live[:, None]
            following = torch.where(begun, self.cell_norm(raw + self.cell_gate(previous)), raw)
            cell, previous = torch.where(live, following, cell), torch.where(live, raw, previous)
            begun = begun | live
            keys.append(key)
            values.append(value)
            raws.append(raw)
        cells, lives = torch.cat([state.cells, torch.stack(raws, 1)], 1), torch.cat([state.live, windows.live], 1)
        return keys, values, RANState(cell, previous, cells, lives, state.lengths + windows.token.sum(1))

    def _attend_tokens(
        self, tokens: _Tokens, keys: list[Tensor], values: list[Tensor], at: Positions
    ) -> Float[Tensor, "batch windows width model_dim"]:
        """The token rows of all windows at once, given the cells that enter the windows."""
        key = torch.cat([torch.stack(keys, 1), tokens.key], 3).flatten(0, 1)
        value = torch.cat([torch.stack(values, 1), tokens.value], 3).flatten(0, 1)
        context = self.token_attention.run(tokens.query.flatten(0, 1), key, value, at=at)
        return self._gated(tokens.normed, context.unflatten(0, tokens.normed.shape[:2]))

    def _gated(
        self,
        normed: Float[Tensor, "*shape length model_dim"],
        context: Float[Tensor, "*shape heads length head_dim"],
    ) -> Float[Tensor, "*shape length model_dim"]:
        """N(LN(f(context W_o) + GLU(Z)))"""
        output = silu(self.output(context.transpose(-2, -3).flatten(-2)))
        y = self.attention_norm(add_dropped(self.gate(normed), output, self.config.dropout, self.training))
        return standardised(y, self.config.standard)


def _cell_positions(at: Positions, count: int) -> list[Positions]:
    """The positions of the cell's row in each window."""

    def steps(part: Tensor) -> tuple[Tensor, ...]:
        return (part,) * count if part.shape[0] == 1 else part.unflatten(0, (-1, count)).unbind(1)

    place = torch.zeros_like(at.query[:1, :, :1])
    real = (None,) * count if at.real is None else steps(at.real)
    return [Positions(place, *keys) for keys in zip(steps(at.key), real, strict=True)]
