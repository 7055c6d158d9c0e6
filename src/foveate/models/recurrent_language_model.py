"""The recurrent language model of the lectures, and the reach of its gradients."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

from foveate.attention.check import require_positive, require_rates
from foveate.config import require_choices
from foveate.data.batch import Batch
from foveate.models.language_model import LanguageModel, are_equally_long, require_equal_lengths, start_by_length
from foveate.nn.dropout import dropout
from foveate.nn.embed import Tokens
from foveate.nn.packing import Packing
from foveate.nn.recurrent_layer import (
    Cell,
    RecurrentConfig,
    RecurrentDecoder,
    RecurrentLayer,
    StackState,
    joined_layers,
)


@dataclass(frozen=True, kw_only=True)
class RecurrentLanguageModelConfig:
    """Stacked RNN, LSTM or GRU layers over embeddings."""

    kind: ClassVar[str] = "recurrent"
    embedding_dim: int = 128
    hidden_dim: int = 512
    num_layers: int = 1
    cell: Cell = "lstm"
    """A trained "rnn" forgets within about ten steps: see `gradient_by_distance`."""
    skip: bool = False
    layer_norm: bool = False
    dropout: float = 0.1
    tied: bool = False
    """Whether the embedding is also the output matrix; requires embedding_dim = hidden_dim."""

    def __post_init__(self) -> None:
        require_choices(self)
        require_positive(embedding_dim=self.embedding_dim, hidden_dim=self.hidden_dim, num_layers=self.num_layers)
        require_rates(dropout=self.dropout)
        if self.tied and self.embedding_dim != self.hidden_dim:
            raise ValueError(
                f"tied needs embedding_dim = hidden_dim, got {self.embedding_dim} and {self.hidden_dim}: "
                "one matrix is both the embedding and what makes logits"
            )

    def build(self, vocab: int) -> "RecurrentLanguageModel":
        return RecurrentLanguageModel(self, vocab)


@dataclass(frozen=True, eq=False)
class RecurrentLanguageState:
    """The state of a model between two tokens: that of every layer, one row per text."""

    layers: StackState


class RecurrentLanguageModel(LanguageModel[RecurrentLanguageState]):
    """h_t = f(E y_t, h_{t−1});  p(y_{t+1}) = softmax(W h_t + b)

    f is a vanilla RNN in Mikolov et al. 2010; it may also be an LSTM or a GRU. Each text begins with h = 0.
    """

    def __init__(self, config: RecurrentLanguageModelConfig, vocab: int) -> None:
        super().__init__()
        self.dropout = config.dropout
        self.embedding = Tokens(vocab).build(config.embedding_dim, deviation=0.1)
        stack = RecurrentConfig(
            cell=config.cell,
            hidden_dim=config.hidden_dim,
            num_layers=config.num_layers,
            skip=config.skip,
            layer_norm=config.layer_norm,
            dropout=config.dropout,
        )
        self.decoder = RecurrentDecoder(stack, config.embedding_dim)
        self.output_bias = nn.Parameter(torch.zeros(vocab))
        self.output_weight = None if config.tied else nn.Parameter(torch.empty(vocab, config.hidden_dim))
        if self.output_weight is not None:
            nn.init.uniform_(self.output_weight, -(config.hidden_dim**-0.5), config.hidden_dim**-0.5)

    def forward(self, text: Batch) -> Float[Tensor, "tokens vocab"]:
        embedded = self._drop(self.embedding(text.ids))
        hidden = self.decoder(embedded, self._zeros(embedded, text.size))
        return self.logits(self._drop(Packing(text.lengths, text.length).pack(hidden)))

    def logits(self, hidden: Float[Tensor, "*shape hidden_dim"]) -> Float[Tensor, "*shape vocab"]:
        weight = self.embedding.weight if self.output_weight is None else self.output_weight
        return linear(hidden, weight, self.output_bias)

    def start(self, prompt: Batch, beam: int = 1) -> RecurrentLanguageState:
        if not are_equally_long(prompt):
            return start_by_length(self, prompt, beam)
        state = RecurrentLanguageState(self._zeros(self.output_bias, prompt.size))
        rows = torch.arange(prompt.size, device=prompt.ids.device).repeat_interleave(beam)
        return self.select(self.extend(state, prompt.ids), rows)

    def step(
        self, state: RecurrentLanguageState, token: Int[Tensor, " rows"]
    ) -> tuple[RecurrentLanguageState, Float[Tensor, "rows vocab"]]:
        hidden, layers = self.decoder.step(self.embedding(token), state.layers)
        return RecurrentLanguageState(layers), self.logits(hidden)

    def extend(self, state: RecurrentLanguageState, ids: Int[Tensor, "rows length"]) -> RecurrentLanguageState:
        layers = state.layers
        for here in self.embedding(ids).unbind(1):
            _, layers = self.decoder.step(here, layers)
        return RecurrentLanguageState(layers)

    def select(self, state: RecurrentLanguageState, rows: Int[Tensor, " new_rows"]) -> RecurrentLanguageState:
        return RecurrentLanguageState(tuple(tuple(part[rows] for part in layer) for layer in state.layers))

    def join(self, state: RecurrentLanguageState, later: RecurrentLanguageState) -> RecurrentLanguageState:
        return RecurrentLanguageState(joined_layers(state.layers, later.layers))

    def _zeros(self, like: Tensor, rows: int) -> StackState:
        return tuple(layer.initial(like, rows) for layer in self.decoder.layers if isinstance(layer, RecurrentLayer))

    def _drop(self, x: Float[Tensor, "*shape dim"]) -> Float[Tensor, "*shape dim"]:
        return dropout(x, self.dropout, self.training)


def gradient_by_distance(model: RecurrentLanguageModel, text: Batch, *, layer: int = -1) -> Float[Tensor, " distance"]:
    """‖∂loss_t / ∂s_{t−k}‖ for k = 0, 1, 2 …: the gradient of the loss of each text's last prediction with respect to
    the state k steps before it. Returns the mean over the texts, which must be equally long.

    s is the state of one layer: h, or h and c of an LSTM side by side. The chain rule multiplies k Jacobians,
    ∂s_t / ∂s_{t−k} = Π ∂s_j / ∂s_{j−1}, and where these shrink, the norm falls geometrically with k.

    Reference: Bengio, Simard and Frasconi 1994; Pascanu et al. 2013, equation 5.
    """
    require_equal_lengths(text)
    read = model.read(text)
    with torch.enable_grad():
        embedded, states = model.embedding(read.ids), []
        hidden, state = embedded[:, 0], model._zeros(embedded, text.size)
        for here in embedded.unbind(1):
            hidden, state = model.decoder.step(here, state)
            # h is computed from c: without a copy, the gradient of c through h of the same time would count twice.
            state = tuple((h, *(c.clone() for c in cell)) for h, *cell in state)
            states.append(state[layer])
        loss = nn.functional.cross_entropy(model.logits(hidden), text.ids[:, -1], reduction="sum")
        parts = [part for step in states for part in step]
        slopes = torch.autograd.grad(loss, parts, allow_unused=True)  # nothing reads an LSTM's last cell
    gradients = [torch.zeros_like(part) if g is None else g for part, g in zip(parts, slopes, strict=True)]
    width = len(states[0])
    steps = [torch.cat(gradients[first : first + width], -1) for first in range(0, len(gradients), width)]
    return torch.stack([each.norm(dim=-1).mean() for each in reversed(steps)])
