"""Recurrent layers: torch's vanilla RNN, LSTM and GRU, and the lectures' own GRU, stacked and bidirectional."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from foveate import machine
from foveate.attention.check import require_positive, require_rates
from foveate.attention.position import transformed
from foveate.config import require_choices
from foveate.nn.dropout import dropout
from foveate.nn.origin import is_plain
from foveate.nn.precision import in_bfloat16

Cell = Literal["rnn", "lstm", "gru", "lecture_gru"]
KINDS: dict[str, type[nn.RNN | nn.LSTM | nn.GRU]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
LayerState = tuple[Float[Tensor, "batch hidden_dim"], ...]
"""(h,), or (h, c) for an LSTM."""
StackState = tuple[LayerState, ...]
Stack = tuple[tuple[Tensor, ...], ...]
"""The same for any number of rows."""
"""One state per layer."""
Weights = tuple[Tensor, Tensor, Tensor, Tensor]


class LectureGRU(nn.Module):
    """u = σ(W_u x + V_u h + b_u),  r = σ(W_r x + V_r h + b_r)
    h' = tanh(W x + V (r ⊙ h) + b),  h ← (1 − u) ⊙ h + u ⊙ h'

    The GRU of the lectures and of Cho et al. 2014 and Bahdanau et al. 2015: the reset gate acts *before* the matrix.
    torch.nn.GRU resets after it, r ⊙ (V h + b), and its update gate is z = 1 − u, so that weights cannot be converted.
    Rows of `weight_input` and `weight_hidden` are, in order, reset, update and candidate.
    """

    def __init__(self, input_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        self.weight_input = nn.Parameter(torch.empty(3 * hidden_dim, input_dim))
        self.weight_hidden = nn.Parameter(torch.empty(3 * hidden_dim, hidden_dim))
        self.bias = nn.Parameter(torch.zeros(3 * hidden_dim))
        for weight in (self.weight_input, self.weight_hidden):
            nn.init.uniform_(weight, -(hidden_dim**-0.5), hidden_dim**-0.5)

    def forward(
        self, x: Float[Tensor, "batch length input_dim"], h: Float[Tensor, "batch hidden_dim"]
    ) -> Float[Tensor, "batch length hidden_dim"]:
        """All hidden states, from left to right."""
        inputs, states = linear(x, self.weight_input, self.bias), []
        for here in inputs.unbind(1):
            h = self._advance(here, h)
            states.append(h)
        return torch.stack(states, dim=1)

    def step(
        self, x: Float[Tensor, "batch input_dim"], h: Float[Tensor, "batch hidden_dim"]
    ) -> Float[Tensor, "batch hidden_dim"]:
        return self._advance(linear(x, self.weight_input, self.bias), h)

    def _advance(self, inputs: Tensor, h: Tensor) -> Tensor:
        gates, candidate = inputs.split([2 * self.hidden_dim, self.hidden_dim], dim=-1)
        to_gates, to_candidate = self.weight_hidden.split([2 * self.hidden_dim, self.hidden_dim])
        reset, update = (gates + linear(h, to_gates)).sigmoid().chunk(2, dim=-1)
        new = torch.tanh(candidate + linear(reset * h, to_candidate))
        return torch.lerp(h, new.to(h.dtype), update.to(h.dtype))  # autocast makes them bfloat16


class RecurrentLayer(nn.Module):
    """One layer in one direction, for whole sequences or one step at a time with the same weights."""

    def __init__(self, cell: Cell, input_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.cell, self.hidden_dim = cell, hidden_dim
        if cell == "lecture_gru":
            self.rnn: nn.Module = LectureGRU(input_dim, hidden_dim)
        else:
            self.rnn = KINDS[cell](input_dim, hidden_dim, batch_first=True)

    def initial(self, like: Tensor, batch: int) -> LayerState:
        """Zeros of the right shape, device and dtype."""
        zeros = like.new_zeros(batch, self.hidden_dim)
        return (zeros, zeros) if self.cell == "lstm" else (zeros,)

    def forward(
        self,
        x: Float[Tensor, "batch length input_dim"],
        lengths: Int[Tensor, " batch"] | None = None,
        state: LayerState | None = None,
    ) -> tuple[Float[Tensor, "batch length hidden_dim"], LayerState]:
        """Outputs, and the state after each sequence's last real input. Outputs at padding are undefined."""
        state = self.initial(x, len(x)) if state is None else state
        if 0 in x.shape[:2]:  # which torch refuses
            return x.new_zeros(*x.shape[:2], self.hidden_dim), state
        if lengths is not None and not bool((lengths > 0).all()):
            return self._past_empty(x, lengths, state)
        if isinstance(self.rnn, LectureGRU):
            return _with_final(self.rnn(x, state[0]), lengths)
        stacked = tuple(part[None].contiguous() for part in state)
        if self.cell != "lstm":
            # A state that equals its output needs no packed sequences, whose backward costs a full pass per step.
            return _with_final(self.rnn(x, stacked[0])[0], lengths)
        with _computable(x):
            if lengths is None:
                outputs, final = self.rnn(x, stacked)
            else:
                packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
                outputs, final = self.rnn(packed, stacked)
                outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
        return outputs, tuple(part[0] for part in final)

    def _past_empty(self, x: Tensor, lengths: Tensor, state: LayerState) -> tuple[Tensor, LayerState]:
        """Rows without inputs keep their state; the others are computed without them."""
        rows = lengths.nonzero()[:, 0]
        if not len(rows):
            return x.new_zeros(*x.shape[:2], self.hidden_dim), state
        outputs, after = self(x[rows], lengths[rows], tuple(part[rows] for part in state))
        whole = outputs.new_zeros(*x.shape[:2], self.hidden_dim).index_copy(0, rows, outputs)
        pairs = zip(state, after, strict=True)
        return whole, tuple(before.to(new.dtype).index_copy(0, rows, new) for before, new in pairs)

    def step(self, x: Float[Tensor, "batch input_dim"], state: LayerState) -> LayerState:
        """The state after one more input; its first tensor is the output."""
        rnn = self.rnn
        if isinstance(rnn, LectureGRU):
            return (rnn.step(x, state[0]),)
        assert isinstance(rnn, nn.RNNBase)
        if not is_plain(rnn, KINDS[self.cell]):
            return self._step_as_sequence(x, state)
        weights = cast(Weights, (rnn.weight_ih_l0, rnn.weight_hh_l0, rnn.bias_ih_l0, rnn.bias_hh_l0))
        if self.cell == "lstm":
            return tuple(torch.lstm_cell(x, state, *weights))
        one = torch.gru_cell if self.cell == "gru" else torch.rnn_tanh_cell
        return (one(x, state[0], *weights),)

    def _step_as_sequence(self, x: Float[Tensor, "batch input_dim"], state: LayerState) -> LayerState:
        """A step as a sequence of length one, for a layer with hooks, wrappers or parametrisations."""
        parts = tuple(part[None].contiguous() for part in state)
        with _computable(x):
            outputs, final = self.rnn(x[:, None], parts if self.cell == "lstm" else parts[0])
        after = tuple(part[0] for part in final) if self.cell == "lstm" else (final[0],)
        if not torch.equal(outputs[:, -1], after[0]):
            raise ValueError(
                f"The outputs of {type(self.rnn).__name__} differ from its states, because a hook or a wrapper changes "
                "them; the next step cannot continue from them. Change what follows the recurrent layer instead."
            )
        return after


def _computable(x: Tensor) -> AbstractContextManager[None]:
    """A context without oneDNN under torch.func, for which its LSTM has no derivatives, and for bfloat16 on a CPU that
    has no products for it: torch gives it an LSTM there, which it refuses.
    """
    if transformed() or (in_bfloat16(x) and not machine.multiplies_bfloat16()):
        return _onednn.off()
    return nullcontext()


class _OneDNN:
    """torch's switch of oneDNN, which all threads share: it stays off until the last that needs it off is done."""

    def __init__(self) -> None:
        self._lock, self._users = Lock(), 0
        self._before: Any = True

    @contextmanager
    def off(self) -> Iterator[None]:
        with self._lock:
            if not self._users:
                self._before = torch.backends.mkldnn.enabled
            self._users += 1
            torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    torch.backends.mkldnn.enabled = self._before


_onednn = _OneDNN()


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig:
    """A stack of recurrent layers."""

    cell: Cell = "gru"
    """"lecture_gru" is the form of the lectures and of Bahdanau et al. 2015; "gru" is torch's, and faster."""
    hidden_dim: int = 256
    """Per direction."""
    num_layers: int = 1
    skip: bool = False
    """Add a layer's input to its output if their widths are equal (from the second layer on)."""
    layer_norm: bool = False
    """Apply layer normalisation to each layer's output."""
    dropout: float = 0.0
    """Between layers."""

    def __post_init__(self) -> None:
        require_choices(self)
        require_positive(hidden_dim=self.hidden_dim, num_layers=self.num_layers)
        require_rates(dropout=self.dropout)


class RecurrentEncoder(nn.Module):
    """Stacked recurrent layers over whole sequences; with `bidirectional`, h_i = [→h_i; ←h_i] in every layer.

    Padding does not change a state, and the backward direction starts at each sequence's last real input. Without
    `norm_last` the last layer's outputs are not normalised, for models that use final states only.
    """

    def __init__(self, config: RecurrentConfig, input_dim: int, *, bidirectional: bool, norm_last: bool = True) -> None:
        super().__init__()
        self.input_dim, self.output_dim = input_dim, config.hidden_dim * (2 if bidirectional else 1)
        widths = [input_dim, *[self.output_dim] * (config.num_layers - 1)]
        self.forwards = nn.ModuleList(RecurrentLayer(config.cell, width, config.hidden_dim) for width in widths)
        backwards = widths if bidirectional else []
        self.backwards = nn.ModuleList(RecurrentLayer(config.cell, width, config.hidden_dim) for width in backwards)
        self.after = _LayerEnds(config, self.output_dim, norm_last=norm_last)

    def forward(
        self, x: Float[Tensor, "batch length input_dim"], lengths: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch length output_dim"], StackState]:
        """Outputs of the last layer (zero at padding), and every layer's final state, directions joined.

        The backward direction's final state is ←h_1, the state after the whole sentence from its end.
        """
        finals = []
        reverse = _reversal(lengths, x.shape[1]) if len(self.backwards) else None
        real = (torch.arange(x.shape[1], device=x.device) < lengths[:, None])[..., None]
        for index, layer in enumerate(self.forwards):
            outputs, final = layer(x, lengths)
            if reverse is not None:
                flipped, final_backward = self.backwards[index](_take(x, reverse), lengths)
                outputs = torch.cat([outputs, _take(flipped, reverse)], dim=-1)
                final = tuple(torch.cat(parts, dim=-1) for parts in zip(final, final_backward, strict=True))
            finals.append(final)
            x = torch.where(real, self.after(index, x, outputs), 0.0)
        return x, tuple(finals)

    def initial(self, like: Tensor) -> StackState:
        """The state before the first input of one sequence, in the type of `like`."""
        layers = cast(Iterable[RecurrentLayer], self.forwards)
        return tuple(layer.initial(like, 1) for layer in layers)

    def proceed(
        self, x: Float[Tensor, "batch length input_dim"], state: StackState
    ) -> tuple[Float[Tensor, "batch length output_dim"], StackState]:
        """The outputs of further inputs, from the state after those before, and the state after them.

        Raises ValueError for layers that also read from the end.
        """
        if len(self.backwards):
            raise ValueError("Layers that read from the end need whole sequences. Choose bidirectional = false.")
        after = []
        for index, layer in enumerate(self.forwards):
            outputs, final = layer(x, None, state[index])
            after.append(final)
            x = self.after(index, x, outputs)
        return x, tuple(after)


class RecurrentDecoder(nn.Module):
    """Stacked recurrent layers from left to right, over whole sequences or step by step with explicit state."""

    def __init__(self, config: RecurrentConfig, input_dim: int) -> None:
        super().__init__()
        self.output_dim = config.hidden_dim
        widths = [input_dim, *[config.hidden_dim] * (config.num_layers - 1)]
        self.layers = nn.ModuleList(RecurrentLayer(config.cell, width, config.hidden_dim) for width in widths)
        self.after = _LayerEnds(config, config.hidden_dim)

    def initial(self, like: Tensor, batch: int) -> StackState:
        """Zeros for every layer."""
        return tuple(cast(RecurrentLayer, layer).initial(like, batch) for layer in self.layers)

    def forward(
        self, x: Float[Tensor, "batch length input_dim"], state: StackState
    ) -> Float[Tensor, "batch length hidden_dim"]:
        for index, layer in enumerate(self.layers):
            outputs, _ = layer(x, None, state[index])
            x = self.after(index, x, outputs)
        return x

    def step(
        self, x: Float[Tensor, "batch input_dim"], state: StackState
    ) -> tuple[Float[Tensor, "batch hidden_dim"], StackState]:
        new = []
        for index, layer in enumerate(self.layers):
            assert isinstance(layer, RecurrentLayer)
            advanced = layer.step(x, state[index])
            new.append(advanced)
            x = self.after(index, x, advanced[0])
        return x, tuple(new)


class _LayerEnds(nn.Module):
    """The operations after each layer of a stack: skip connection, layer norm, dropout between layers."""

    def __init__(self, config: RecurrentConfig, output_dim: int, *, norm_last: bool = True) -> None:
        super().__init__()
        self.skip, self.dropout, self.last = config.skip, config.dropout, config.num_layers - 1
        norms = config.num_layers - (not norm_last) if config.layer_norm else 0
        self.norms = nn.ModuleList(nn.LayerNorm(output_dim) for _ in range(norms))

    def forward(self, index: int, x: Tensor, outputs: Tensor) -> Tensor:
        if self.skip and x.shape[-1] == outputs.shape[-1]:
            outputs = outputs + x
        if index < len(self.norms):
            outputs = self.norms[index](outputs)
        return outputs if index == self.last else dropout(outputs, self.dropout, self.training)


def _reversal(lengths: Int[Tensor, " batch"], length: int) -> Int[Tensor, "batch length"]:
    """Indices that reverse the real part of each sequence and leave its padding in place."""
    place = torch.arange(length, device=lengths.device)
    mirrored = lengths[:, None] - 1 - place
    return torch.where(mirrored >= 0, mirrored, place)


def _take(x: Float[Tensor, "batch length dim"], index: Int[Tensor, "batch taken"]) -> Float[Tensor, "batch taken dim"]:
    return x.gather(1, index[..., None].expand(-1, -1, x.shape[-1]))


def _with_final(
    outputs: Float[Tensor, "batch length hidden_dim"], lengths: Int[Tensor, " batch"] | None
) -> tuple[Float[Tensor, "batch length hidden_dim"], LayerState]:
    if lengths is None:
        return outputs, (outputs[:, -1],)
    final = _take(outputs, (lengths - 1)[:, None])[:, 0]
    return outputs, (final,)


def joined_layers(state: Stack, later: Stack) -> Stack:
    """The states of both batches' rows."""
    pairs = zip(state, later, strict=True)
    return tuple(tuple(torch.cat(parts) for parts in zip(*layers, strict=True)) for layers in pairs)
