"""A synthesiser writes frames of speech for a text, with location-aware attention: Tacotron, made small."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, relu, softplus

from foveate.attention import AttentionConfig, LocationAwareConfig, Positions, padding
from foveate.attention.check import require_positive, require_rates
from foveate.attention.mechanism import require_no_segments, shortest
from foveate.config.field import setting
from foveate.data.batch import Batch
from foveate.interruption import ask
from foveate.models.recurrent import Memory, attend_row, first_weights
from foveate.nn.dropout import dropout
from foveate.nn.embed import Tokens
from foveate.nn.encoder import EncoderConfig, RNNEncoderConfig
from foveate.nn.linear_layer import Linear
from foveate.nn.neighbour import Neighbours
from foveate.nn.packing import Packing
from foveate.nn.recurrent_layer import LayerState, RecurrentLayer

REACH = 2
"""Frames on each side in one convolution of the refinement."""
DIAGONAL = 0.2
"""The deviation of permitted places from the diagonal, as a share of the text."""


@dataclass(frozen=True, kw_only=True)
class SynthesiserConfig:
    """An encoder over the text, and a GRU that writes frames and attends to the text."""

    embedding_dim: int = 128
    encoder: EncoderConfig = RNNEncoderConfig(hidden_dim=64)
    attention: AttentionConfig = AttentionConfig(score=LocationAwareConfig(hidden_dim=64, channels=8, width=15))
    hidden_dim: int = setting(256, "width of the decoder")
    prenet_dim: int = setting(64, "width of the layer that reads the frame before")
    prenet_dropout: float = setting(
        0.5, "dropout on that layer in training, so that the decoder does not copy the frame before"
    )
    reduction: int = setting(2, "frames that one step of the decoder writes")
    refinements: int = setting(3, "convolutions that correct the frames afterwards; 0 for none")
    guidance: float = setting(0.0, "weight of the penalty on attention far from the diagonal; 0 for none")
    dropout: float = 0.1

    def __post_init__(self) -> None:
        require_positive(
            embedding_dim=self.embedding_dim,
            hidden_dim=self.hidden_dim,
            prenet_dim=self.prenet_dim,
            reduction=self.reduction,
        )
        require_rates(dropout=self.dropout, prenet_dropout=self.prenet_dropout)
        if self.refinements < 0:
            raise ValueError(f"refinements must be at least 0, got {self.refinements}")
        if self.guidance < 0:
            raise ValueError(f"guidance must be at least 0, got {self.guidance}")
        require_no_segments(attention=self.attention)

    @property
    def positions(self) -> int | None:
        """The length of the longest text in tokens; None without a limit."""
        limits = (getattr(self.encoder, "positions", None), shortest(self.attention))
        return min((limit for limit in limits if limit is not None), default=None)

    def build(self, vocab: int, width: int) -> "Synthesiser":
        """The model for texts of `vocab` different tokens and frames of `width` numbers."""
        return Synthesiser(self, vocab, width)


@dataclass(frozen=True, eq=False)
class Writing:
    """Frames that the decoder has written, and the logits of "the text ends here", one for each frame.

    `weights` are those of attention in each step, None without guidance if the score does not read those of the step
    before.
    """

    frames: Float[Tensor, "frames width"]
    refined: Float[Tensor, "frames width"]
    stop: Float[Tensor, " frames"]
    weights: Float[Tensor, "batch steps key"] | None = None


@dataclass(frozen=True, eq=False)
class Utterance:
    """The frames that the decoder wrote for one text, before and after the refinement.

    `finished` is false if the limit on the number of frames came before the end.
    """

    frames: Float[Tensor, "frames width"]
    refined: Float[Tensor, "frames width"]
    finished: bool


class Synthesiser(nn.Module):
    """p_t = relu(W y_{t−1});  s_t = GRU(s_{t−1}, [p_t; c_{t−1}])
    α_t = softmax_j score(s_t, h_j, α_{t−1});  c_t = Σ_j α_tj h_j
    [y_t; z_t] = V [s_t; c_t];  p(end at t) = σ(z_t);  ŷ = y + convolutions(y)

    One step writes `reduction` frames and reads the last of the step before. `record` shows α: the tokens that each
    step speaks. As in Tacotron 2 the score is location-aware and a sum of squares is minimised before and after the
    refinement; the decoder has one GRU in place of two LSTMs, and dropout before it acts in training only, so that
    speech is a function of the text.

    Reference: Wang et al. 2017, "Tacotron", section 3 (reduction); Shen et al. 2018, "Natural TTS Synthesis by
    Conditioning WaveNet on Mel Spectrogram Predictions", section 2.2.
    """

    def __init__(self, config: SynthesiserConfig, vocab: int, width: int) -> None:
        super().__init__()
        require_positive(vocab=vocab, width=width)
        self.config, self.width = config, width
        self.embedding = Tokens(vocab).build(config.embedding_dim, deviation=0.1)
        self.encoder = config.encoder.build_for(config.embedding_dim)
        memory_dim = self.encoder.output_dim
        self.prenet = Linear(width, config.prenet_dim)
        self.decoder = RecurrentLayer("gru", config.prenet_dim + memory_dim, config.hidden_dim)
        self.attention = config.attention.build(
            query_dim=config.hidden_dim, key_dim=memory_dim, visibility=padding(), kind="cross"
        )
        self.output = Linear(config.hidden_dim + memory_dim, config.reduction * (width + 1))
        widths = [width, *[config.hidden_dim] * (config.refinements - 1), width] if config.refinements else [width]
        self.refine = nn.ModuleList(
            Neighbours(before, after, left=REACH, right=REACH) for before, after in pairwise(widths)
        )

    @property
    def max_length(self) -> int | None:
        """The length of the longest text in tokens; None without a limit."""
        return shortest(self.encoder, self.attention)

    def forward(self, text: Batch, speech: Batch) -> Writing:
        """Teacher-forced frames of each recording, one recording after the other."""
        size, steps = self.config.reduction, -(-speech.length // self.config.reduction)
        real = (torch.arange(steps * size, device=speech.lengths.device) < speech.lengths[:, None])[..., None]
        target = torch.where(real, speech.widened(size).features, 0.0).to(self.prenet.weight.dtype)
        before = torch.nn.functional.pad(target[:, size - 1 :: size], (0, 0, 1, 0))[:, :steps]
        memory, weights = self._remember(text, steps)
        if weights is None and self.config.guidance:  # which needs the weights of each step, whatever the score reads
            weights = memory.hidden.new_zeros(memory.hidden.shape[:2])
        prenet = self._read(before)
        state, context = self._begin(memory)
        outputs, places = [], []
        for time, here in enumerate(prenet.unbind(1)):
            state, context, weights = self._advance(here, state, context, memory, time, weights)
            outputs.append(torch.cat([state[0], context], -1))
            places.append(weights)
        written = self.output(self._drop(torch.stack(outputs, 1)))
        packing = Packing(speech.lengths, steps * size)
        frames, stop = self._split(written)
        frames = packing.pack(frames)
        every = None if weights is None else torch.stack([one for one in places if one is not None], 1)
        return Writing(frames, self._refined(frames, packing), packing.pack(stop), every)

    def loss(self, text: Batch, speech: Batch) -> Float[Tensor, ""]:
        """Σ over frames of the mean squared error of both spectra, and of the cross-entropy of the end in nats.

        With `guidance`, attention also pays for weights far from the diagonal: see `off_diagonal`.
        """
        written = self(text, speech)
        packing = Packing(speech.lengths, speech.length)
        target = packing.pack(speech.features).float()
        last = torch.zeros(len(target), device=target.device)
        last[packing.starts[1:] - 1] = 1.0
        errors = sum((one.float() - target).square().mean(-1).sum() for one in (written.frames, written.refined))
        errors = errors + binary_cross_entropy_with_logits(written.stop.float(), last, reduction="sum")
        if written.weights is None or not self.config.guidance:
            return errors
        size = self.config.reduction
        far = off_diagonal(written.weights.float(), -(-speech.lengths // size), text.lengths)
        return errors + self.config.guidance * size * far

    @torch.no_grad()
    def write(self, text: Batch, *, max_frames: int) -> list[Utterance]:
        """Write frames for each text, until it has more likely ended than not, or `max_frames` are written.

        −log p(no end by t) = Σ_{u ≤ t} log(1 + exp(z_u)), and a text ends where it reaches log 2. A pause of uncertain
        length has no single frame whose probability of the end exceeds a half.
        """
        require_positive(max_frames=max_frames)
        size = self.config.reduction
        memory, weights = self._remember(text, -(-max_frames // size))
        state, context = self._begin(memory)
        last = context.new_zeros(text.size, self.width)
        parts: list[Tensor] = []
        ends = torch.full((text.size,), max_frames, device=context.device)
        going = torch.ones(text.size, dtype=torch.bool, device=context.device)
        passed = context.new_zeros(text.size, 1, dtype=torch.float32)
        while bool(going.any()) and len(parts) * size < max_frames:
            ask()
            time = len(parts)
            state, context, weights = self._advance(self._read(last), state, context, memory, time, weights)
            frames, stop = self._split(self.output(torch.cat([state[0], context], -1))[:, None])
            last = frames[:, -1]
            parts.append(frames)
            passed = passed[:, -1:] + softplus(stop.float()).cumsum(1)
            first = _first(passed >= math.log(2))
            ended = going & (first < size) & (time * size + first < max_frames)
            ends = torch.where(ended, time * size + first + 1, ends)
            going &= ~ended
        packing = Packing(ends, len(parts) * size)
        raw = packing.pack(torch.cat(parts, 1))
        both = zip(raw.split(ends.tolist()), self._refined(raw, packing).split(ends.tolist()), strict=True)
        return [Utterance(*frames, not more) for frames, more in zip(both, going.tolist(), strict=True)]

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def _remember(self, text: Batch, queries: int) -> tuple[Memory, Float[Tensor, "batch key"] | None]:
        packing = Packing(text.lengths, text.length)
        hidden = self.encoder(self._drop(self.embedding(packing.pack(text.ids))), packing=packing)
        at = replace(Positions.of(queries, text.length, key_lengths=text.lengths), zeroed=True)
        memory = Memory(packing.unpack(hidden), at, ())
        memory = replace(memory, features=self.attention.key_features(memory.hidden[:, None]))
        return memory, first_weights(self.attention, memory)

    def _begin(self, memory: Memory) -> tuple[LayerState, Float[Tensor, "batch memory_dim"]]:
        hidden = memory.hidden
        return self.decoder.initial(hidden, len(hidden)), hidden.new_zeros(len(hidden), hidden.shape[-1])

    def _advance(
        self,
        read: Float[Tensor, "batch prenet_dim"],
        state: LayerState,
        context: Float[Tensor, "batch memory_dim"],
        memory: Memory,
        time: int,
        weights: Float[Tensor, "batch key"] | None,
    ) -> tuple[LayerState, Float[Tensor, "batch memory_dim"], Float[Tensor, "batch key"] | None]:
        state = self.decoder.step(torch.cat([read, context], -1), state)
        context, weights = attend_row(self.attention, state[0], memory, time, weights)
        return state, context, weights

    def _read(self, frames: Float[Tensor, "*shape width"]) -> Float[Tensor, "*shape prenet_dim"]:
        return dropout(relu(self.prenet(frames)), self.config.prenet_dropout, self.training)

    def _split(
        self, written: Float[Tensor, "batch steps outputs"]
    ) -> tuple[Float[Tensor, "batch frames width"], Float[Tensor, "batch frames"]]:
        """The frames of each step, and their logits of the end."""
        both = written.unflatten(-1, (self.config.reduction, self.width + 1)).flatten(1, 2)
        return both[..., :-1], both[..., -1]

    def _refined(self, frames: Float[Tensor, "frames width"], packing: Packing) -> Float[Tensor, "frames width"]:
        x = frames
        for number, layer in enumerate(self.refine, start=1):
            x = layer(x, packing=packing)
            x = x if number == len(self.refine) else self._drop(torch.tanh(x))
        return frames + x if len(self.refine) else frames

    def _drop(self, x: Float[Tensor, "*shape dim"]) -> Float[Tensor, "*shape dim"]:
        return dropout(x, self.config.dropout, self.training)


def off_diagonal(
    weights: Float[Tensor, "batch steps key"], steps: Int[Tensor, " batch"], keys: Int[Tensor, " batch"]
) -> Float[Tensor, ""]:
    """Σ_t Σ_j α_tj (1 − exp(−(j/J − t/T)² / 2g²)) with g = 0.2, over the T real steps and J real keys of each row.

    The paper takes the mean over t and j.

    >>> off_diagonal(torch.eye(5)[None], torch.tensor([5]), torch.tensor([5]))
    tensor(0.)
    >>> off_diagonal(torch.eye(5).flip(0)[None], torch.tensor([5]), torch.tensor([5]))
    tensor(3.7287)

    Reference: Tachibana et al. 2018, "Efficiently trainable text-to-speech system based on deep convolutional
    networks with guided attention", section 4.1.
    """
    time = torch.arange(weights.shape[1]).to(weights) / steps[:, None]
    place = torch.arange(weights.shape[2]).to(weights) / keys[:, None]
    far = 1 - torch.exp(-((place[:, None] - time[..., None]) ** 2) / (2 * DIAGONAL**2))
    real = (time < 1)[..., None] & (place < 1)[:, None]
    return torch.where(real, weights * far, 0.0).sum()


def _first(true: Tensor) -> Int[Tensor, " batch"]:
    """The first true place of each row; the number of places where there is none."""
    return torch.where(true.any(-1), true.to(torch.uint8).argmax(-1), true.shape[-1])
