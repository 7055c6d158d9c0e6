"""Encoders compute a vector for every token from its sequence. All that the lectures compare share one interface."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar, cast

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import relu

from foveate.attention import Positions, Visibility
from foveate.attention.check import require_positive, require_rates
from foveate.attention.claim import claim
from foveate.attention.mechanism import require_for_batches, shortest
from foveate.config.field import setting
from foveate.errors import UsageError
from foveate.nn.block_stream import BlockStream, attention_refusals
from foveate.nn.dropout import dropout
from foveate.nn.layer_stream import LocalStream, RecurrentStream
from foveate.nn.linear_layer import Linear
from foveate.nn.neighbour import Neighbours, lengths_of_tokens
from foveate.nn.packing import Packing
from foveate.nn.position_vector import PositionConfig, SinusoidalConfig
from foveate.nn.ran import RANConfig, RANEncoder
from foveate.nn.recurrent_layer import RecurrentConfig, RecurrentEncoder
from foveate.nn.restriction import restricted, with_part
from foveate.nn.stream import Chain, Placed, Pointwise, Stream
from foveate.nn.transformer_block import BlockConfig, EncoderBlock


class Encoder(nn.Module, ABC):
    """h_1 … h_n = encode(x_1 … x_n)

    The input is tokens packed without padding, or padded sequences; the output has the same layout, with zeros at
    padding. The values at padding and the other sequences of the batch do not affect the result.

    >>> import torch
    >>> encoder = CNNEncoderConfig(hidden_dim=4).build_for(2).eval()
    >>> packing, x = Packing(torch.tensor([2, 3]), 3), torch.randn(2, 3, 2)
    >>> packed, padded = encoder(packing.pack(x), packing=packing), encoder(x, packing=packing)
    >>> packed.shape, torch.allclose(packing.pack(padded), packed, atol=1e-6)
    (torch.Size([5, 4]), True)
    """

    output_dim: int
    max_length: int | None = None
    """The length of the longest sequence that has positions; None without a limit."""

    def forward(
        self, x: Float[Tensor, "tokens input_dim"] | Float[Tensor, "batch length input_dim"], *, packing: Packing
    ) -> Float[Tensor, "tokens output_dim"] | Float[Tensor, "batch length output_dim"]:
        if x.dim() == 3:
            return packing.unpack(self.encode(packing.pack(x), packing))
        return self.encode(x, packing)

    @abstractmethod
    def encode(self, x: Float[Tensor, "tokens input_dim"], packing: Packing) -> Float[Tensor, "tokens output_dim"]: ...

    def stream(self) -> Chain:
        """This encoder for one sequence that arrives piece by piece. It gives what the encoder gives for the whole.

        Raises UsageError, with all reasons, where the first output needs the whole sequence.

        >>> import torch
        >>> stream = CNNEncoderConfig(hidden_dim=4, num_layers=2).build_for(2).eval().stream()
        >>> stream.look_ahead, [len(y) for y in stream.run(torch.randn(7, 2).split(3))]
        (2, [1, 3, 3])
        """
        reasons = ["dropout is random while the encoder trains: call eval()"] if self.training else []
        if reasons := self.stream_refusals() + reasons:
            raise UsageError(
                f"This encoder cannot process a stream: {'; '.join(reasons)}. A Transformer with the rule "
                '"window(left=64, right=4)" or "chunk(16, left=4)" as block.encoder_attention.visibility can.'
            )
        return Chain(self.stream_parts(), "encoder")

    def under(self, rule: Visibility) -> "Encoder":
        """This encoder with the same weights, whose frames see only those that the rule shows, too.

        >>> from foveate.attention import chunk
        >>> encoder = TransformerEncoderConfig().build_for(8).eval()
        >>> encoder.under(chunk(4, left=2)).stream().look_ahead, encoder.blocks[0].attention.attention.visibility
        (3, padding())

        Raises UsageError for an encoder without attention under a visibility rule, and for a rule that a batch cannot
        honour, such as same_segment().
        """
        raise UsageError(
            f"{type(self).__name__} has no attention that {rule} could restrict. A Transformer with softmax attention "
            "has."
        )

    def stream_refusals(self) -> list[str]:
        """Why this encoder cannot process a sequence piece by piece; empty where it can."""
        return [f"{type(self).__name__} computes from the whole sequence"]

    def stream_parts(self) -> list[Stream[Any]]:
        """The layers as streams, for an encoder without refusals."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class RNNEncoderConfig(RecurrentConfig):
    """Recurrent layers: every vector summarises the sentence up to its token, and from its token to the end."""

    kind: ClassVar[str] = "rnn"
    hidden_dim: int = 128
    """Per direction."""
    bidirectional: bool = setting(True, "read from both ends: h_i = [→h_i; ←h_i]")

    def build_for(self, input_dim: int) -> "RNNEncoder":
        return RNNEncoder(self, input_dim)


@dataclass(frozen=True, kw_only=True)
class CNNEncoderConfig:
    """Convolutions: one layer covers `width` tokens, n layers cover n · (width − 1) + 1."""

    kind: ClassVar[str] = "cnn"
    hidden_dim: int = 256
    width: int = setting(3, "tokens that a layer joins, an odd number")
    num_layers: int = 2
    dropout: float = setting(0.1, "dropout on the output of each layer after the first")

    def __post_init__(self) -> None:
        require_positive(hidden_dim=self.hidden_dim, width=self.width, num_layers=self.num_layers)
        require_rates(dropout=self.dropout)
        if self.width % 2 == 0:
            raise ValueError(f"width must be odd, so that it has a middle token, got {self.width}")

    def build_for(self, input_dim: int) -> "CNNEncoder":
        return CNNEncoder(self, input_dim)


@dataclass(frozen=True, kw_only=True)
class WindowEncoderConfig:
    """Fully-connected layers over a word and its neighbours: the lectures' baseline, which fails.

    Without a window, a word gets the same vector in every context. With a window, the first matrix grows with every
    neighbour, and words outside the window have no influence.
    """

    kind: ClassVar[str] = "window"
    window: int = setting(0, "neighbours on each side")
    hidden_dim: int = 256
    num_layers: int = 1

    def __post_init__(self) -> None:
        require_positive(hidden_dim=self.hidden_dim, num_layers=self.num_layers)
        if self.window < 0:
            raise ValueError(f"window must be at least 0, got {self.window}")

    def build_for(self, input_dim: int) -> "WindowEncoder":
        return WindowEncoder(self, input_dim)


@dataclass(frozen=True, kw_only=True)
class TransformerEncoderConfig:
    """Transformer blocks: every token attends to all others, by the mechanism in `block.encoder_attention`."""

    kind: ClassVar[str] = "transformer"
    block: BlockConfig = BlockConfig(model_dim=128, num_heads=4, feedforward_dim=512, norm="pre")
    num_layers: int = 2
    position: PositionConfig = SinusoidalConfig()

    def __post_init__(self) -> None:
        require_positive(num_layers=self.num_layers)

    @property
    def positions(self) -> int | None:
        """The longest input in tokens; None without a limit."""
        return shortest(self.position, self.block.encoder_attention)

    def build_for(self, input_dim: int) -> "TransformerEncoder":
        return TransformerEncoder(self, input_dim)


@dataclass(frozen=True, kw_only=True)
class RANEncoderConfig(RANConfig):
    """The recurrent attention network reads long documents window by window, at a cost linear in their length."""

    kind: ClassVar[str] = "ran"
    model_dim: int = 128
    num_heads: int = 4
    head_dim: int = setting(32, "need not be model_dim / num_heads")
    window: int = setting(64, "tokens per window")

    def build_for(self, input_dim: int) -> "RecurrentAttentionEncoder":
        return RecurrentAttentionEncoder(self, input_dim)


EncoderConfig = RNNEncoderConfig | CNNEncoderConfig | WindowEncoderConfig | TransformerEncoderConfig | RANEncoderConfig
"""The encoders that a configuration can select: "rnn", "cnn", "window", "transformer", "ran"."""


class RNNEncoder(Encoder):
    """h_i = [→h_i; ←h_i]"""

    def __init__(self, config: RNNEncoderConfig, input_dim: int) -> None:
        super().__init__()
        self.network = RecurrentEncoder(config, input_dim, bidirectional=config.bidirectional)
        self.output_dim = self.network.output_dim

    def encode(self, x: Float[Tensor, "tokens input_dim"], packing: Packing) -> Float[Tensor, "tokens output_dim"]:
        hidden, _ = self.network(packing.unpack(x), packing.lengths)
        return packing.pack(hidden)

    def stream_refusals(self) -> list[str]:
        ends = "half of its layers read from the end, so that the first output waits for it: choose bidirectional=False"
        return [ends] if len(self.network.backwards) else []

    def stream_parts(self) -> list[Stream[Any]]:
        return [RecurrentStream(self.network)]


class CNNEncoder(Encoder):
    """x ← x + dropout(relu(W [x_{i−w} … x_{i+w}] + b)); the first layer does not add x"""

    def __init__(self, config: CNNEncoderConfig, input_dim: int) -> None:
        super().__init__()
        side, self.output_dim, self.dropout = config.width // 2, config.hidden_dim, config.dropout
        widths = [input_dim, *[config.hidden_dim] * (config.num_layers - 1)]
        self.layers = nn.ModuleList(Neighbours(width, config.hidden_dim, left=side, right=side) for width in widths)

    def encode(self, x: Float[Tensor, "tokens input_dim"], packing: Packing) -> Float[Tensor, "tokens output_dim"]:
        for index in range(len(self.layers)):
            x = self._layer(index, x, packing)
        return x

    def _layer(self, index: int, x: Tensor, packing: Packing) -> Tensor:
        new = relu(self.layers[index](x, packing=packing))
        return x + dropout(new, self.dropout, self.training) if index else new

    def stream_refusals(self) -> list[str]:
        return []

    def stream_parts(self) -> list[Stream[Any]]:
        layers = enumerate(cast(Iterable[Neighbours], self.layers))
        return [
            LocalStream(partial(self._layer, index), self.output_dim, left=layer.left, right=layer.right)
            for index, layer in layers
        ]


class WindowEncoder(Encoder):
    """h_i = relu(W [x_{i−w}; …; x_{i+w}] + b); the later layers process each token alone"""

    def __init__(self, config: WindowEncoderConfig, input_dim: int) -> None:
        super().__init__()
        self.output_dim = config.hidden_dim
        self.first = Neighbours(input_dim, config.hidden_dim, left=config.window, right=config.window)
        self.others = nn.ModuleList(Linear(config.hidden_dim, config.hidden_dim) for _ in range(config.num_layers - 1))

    def encode(self, x: Float[Tensor, "tokens input_dim"], packing: Packing) -> Float[Tensor, "tokens output_dim"]:
        x = relu(self.first(x, packing=packing))
        for layer in self.others:
            x = relu(layer(x))
        return x

    def stream_refusals(self) -> list[str]:
        return []

    def stream_parts(self) -> list[Stream[Any]]:
        return [LocalStream(self.encode, self.output_dim, left=self.first.left, right=self.first.right)]


class TransformerEncoder(Encoder):
    """Encoder blocks over W LayerNorm(x_i) + p_i. The norm brings embeddings of any scale to that of the positions."""

    def __init__(self, config: TransformerEncoderConfig, input_dim: int) -> None:
        super().__init__()
        self.output_dim = config.block.model_dim
        self.norm, self.project = nn.LayerNorm(input_dim), _projection(input_dim, self.output_dim)
        self.position = config.position.build(self.output_dim)
        self.dropout = config.block.dropout
        self.blocks = nn.ModuleList(EncoderBlock(config.block) for _ in range(config.num_layers))
        self.max_length = shortest(self.position, *self.blocks)
        self.last_norm = nn.LayerNorm(self.output_dim) if config.block.norm == "pre" else nn.Identity()

    def encode(self, x: Float[Tensor, "tokens input_dim"], packing: Packing) -> Float[Tensor, "tokens output_dim"]:
        x = self._placed(x, packing.place, lengths_of_tokens(packing))
        at = Positions.of(packing.length, packing.length, key_lengths=packing.lengths)
        at = replace(at, zeroed=True)  # unpacked projections are zero at padding
        for block in self.blocks:
            x = block(x, at=at, packing=packing)
        return self.last_norm(x)

    def _placed(self, x: Tensor, place: Tensor, length: Tensor | None) -> Tensor:
        x = self.project(self.norm(x))
        x = x + self.position(place, length).to(x.dtype)
        return dropout(x, self.dropout, self.training)

    def under(self, rule: Visibility) -> "TransformerEncoder":
        try:
            require_for_batches("The rule", rule)
        except ValueError as error:
            raise UsageError(f"{error}.") from None
        blocks = nn.ModuleList().train(self.blocks.training)
        for block in self._encoder:
            try:
                blocks.append(with_part(block, "attention", restricted(block.attention, rule)))
            except TypeError as error:
                raise UsageError(f"{rule} cannot restrict this encoder: {error}.") from None
        return with_part(self, "blocks", blocks)

    def stream_refusals(self) -> list[str]:
        reasons = [reason for block in self._encoder for reason in attention_refusals(block.attention)]
        if not claim(self.position, "by_place"):
            reasons.append(f"{type(self.position).__name__} needs the length, or all positions before")
        return list(dict.fromkeys(reasons))

    def stream_parts(self) -> list[Stream[Any]]:
        return [Placed(self._placed), *map(BlockStream, self._encoder), Pointwise(self.last_norm)]

    @property
    def _encoder(self) -> Iterable[EncoderBlock]:
        return cast(Iterable[EncoderBlock], self.blocks)


class RecurrentAttentionEncoder(Encoder):
    """A stack of recurrent attention layers."""

    def __init__(self, config: RANEncoderConfig, input_dim: int) -> None:
        super().__init__()
        self.output_dim = config.model_dim
        self.project = _projection(input_dim, config.model_dim)
        settings = {field.name: getattr(config, field.name) for field in fields(RANConfig)}
        self.encoder = RANEncoder(RANConfig(**settings))

    def encode(self, x: Float[Tensor, "tokens input_dim"], packing: Packing) -> Float[Tensor, "tokens output_dim"]:
        return self.encoder(self.project(x), packing=packing)


def _projection(input_dim: int, output_dim: int) -> nn.Module:
    return nn.Identity() if input_dim == output_dim else Linear(input_dim, output_dim)
