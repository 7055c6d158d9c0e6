"""The recurrent attention network as a language model: windows of tokens, and a cell that passes from each to the
next.
"""

from dataclasses import dataclass, fields, replace
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

from foveate.config.field import setting
from foveate.data.batch import Batch
from foveate.models.language_model import LanguageModel, require_equal_lengths
from foveate.nn.dropout import dropout
from foveate.nn.embed import Tokens
from foveate.nn.packing import Packing
from foveate.nn.ran import RANConfig
from foveate.nn.ran_layer import RANState


@dataclass(frozen=True, kw_only=True)
class RANLanguageModelConfig(RANConfig):
    """Causal recurrent attention layers over embeddings. The defaults suit a few megabytes of text."""

    kind: ClassVar[str] = "ran"
    model_dim: int = 256
    num_heads: int = 4
    head_dim: int = setting(64, "need not be model_dim / num_heads")
    window: int = setting(64, "tokens per window")
    causal: bool = setting(True, "tokens do not see later tokens, which a language model requires")
    tied: bool = True
    """Whether the embedding is also the output matrix."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.causal or self.published or self.windows != "grid":
            raise ValueError(
                "a language model's tokens see no later one, and a text goes on as it was begun. Leave causal=true, "
                'published=false and windows="grid"'
            )

    def build(self, vocab: int) -> "RANLanguageModel":  # type: ignore[override]
        return RANLanguageModel(self, vocab)

    @property
    def network(self) -> RANConfig:
        """The configuration of the layers."""
        return RANConfig(**{field.name: getattr(self, field.name) for field in fields(RANConfig)})


@dataclass(frozen=True, eq=False)
class RANLanguageState:
    """The state of a model between two tokens. It grows by one cell per window."""

    layers: tuple[RANState, ...]
    """The state after the last complete window."""
    begun: Float[Tensor, "rows length model_dim"]
    """Embeddings of the tokens of the incomplete window."""


class RANLanguageModel(LanguageModel[RANLanguageState]):
    """h = RAN(E y), where each token sees earlier ones in its window, and the cells of earlier windows;
    p(y_{t+1}) = softmax(E h_t + b)

    Texts may have any length; the cost is linear in it, except for the review of the cells. A step computes the
    incomplete window again: at most `window` tokens, however long the text. Reference: Li et al. 2023.
    """

    def __init__(self, config: RANLanguageModelConfig, vocab: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = Tokens(vocab).build(config.model_dim)
        self.network = config.network.build()
        self.output_bias = nn.Parameter(torch.zeros(vocab))
        self.output_weight = None if config.tied else nn.Parameter(torch.empty(vocab, config.model_dim))
        for table in (self.embedding.weight, self.output_weight):
            if table is not None:
                nn.init.normal_(table, std=config.model_dim**-0.5)

    def forward(self, text: Batch) -> Float[Tensor, "tokens vocab"]:
        embedded = dropout(self.embedding(text.ids), self.config.dropout, self.training)
        return self.logits(Packing(text.lengths, text.length).pack(self.network(embedded, text.lengths).tokens))

    def logits(self, hidden: Float[Tensor, "*shape model_dim"]) -> Float[Tensor, "*shape vocab"]:
        weight = self.embedding.weight if self.output_weight is None else self.output_weight
        return linear(hidden, weight, self.output_bias)

    def start(self, prompt: Batch, beam: int = 1) -> RANLanguageState:
        require_equal_lengths(prompt)
        embedded, layers = self.embedding(prompt.ids), self.network.start(prompt.size)
        whole = prompt.length - prompt.length % self.config.window
        if whole:
            layers = self.network.extend(embedded[:, :whole], layers).state
        rows = torch.arange(prompt.size, device=prompt.ids.device).repeat_interleave(beam)
        return self.select(RANLanguageState(layers, embedded[:, whole:]), rows)

    def step(
        self, state: RANLanguageState, token: Int[Tensor, " rows"]
    ) -> tuple[RANLanguageState, Float[Tensor, "rows vocab"]]:
        begun = torch.cat([state.begun, self.embedding(token)[:, None]], 1)
        output = self.network.extend(begun, state.layers)
        logits = self.logits(output.tokens[:, -1])
        if begun.shape[1] == self.config.window:
            return RANLanguageState(output.state, begun[:, :0]), logits
        return RANLanguageState(state.layers, begun), logits

    def extend(self, state: RANLanguageState, ids: Int[Tensor, "rows length"]) -> RANLanguageState:
        """The state after further tokens, whose cost is linear in their number."""
        begun = torch.cat([state.begun, self.embedding(ids)], 1)
        whole = begun.shape[1] - begun.shape[1] % self.config.window
        layers = self.network.extend(begun[:, :whole], state.layers).state if whole else state.layers
        return RANLanguageState(layers, begun[:, whole:])

    def select(self, state: RANLanguageState, rows: Int[Tensor, " new_rows"]) -> RANLanguageState:
        layers = tuple(
            replace(layer, **{field.name: getattr(layer, field.name)[rows] for field in fields(RANState)})
            for layer in state.layers
        )
        return RANLanguageState(layers, state.begun[rows])
