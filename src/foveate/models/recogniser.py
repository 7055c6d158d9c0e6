"""A recogniser writes what a recording says: frames are subsampled and encoded; CTC, a decoder, or both write."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention import Visibility
from foveate.attention.check import require_positive, require_rates
from foveate.config.field import setting
from foveate.data.batch import Batch
from foveate.errors import UsageError
from foveate.models.seq2seq import Seq2Seq
from foveate.models.speller import AnySpellerConfig, Speller, TransformerSpeller
from foveate.nn.ctc_loss import ctc_loss, without_ends
from foveate.nn.dropout import dropout
from foveate.nn.embed import Input, Vectors, embed, input_of
from foveate.nn.encoder import EncoderConfig, TransformerEncoderConfig
from foveate.nn.linear_layer import Linear
from foveate.nn.packing import Packing
from foveate.nn.restriction import with_part
from foveate.nn.stream import Chain, Pointwise
from foveate.nn.subsampling import AnySubsamplingConfig, SubsamplingConfig
from foveate.nn.transformer_block import BlockConfig


@dataclass(frozen=True, kw_only=True)
class RecogniserConfig:
    """Subsampling, an encoder over frames, and CTC, a decoder, or both."""

    subsampling: AnySubsamplingConfig = SubsamplingConfig()
    encoder: EncoderConfig = TransformerEncoderConfig(
        block=BlockConfig(model_dim=128, num_heads=4, feedforward_dim=512, norm="pre"), num_layers=4
    )
    decoder: AnySpellerConfig | None = setting(None, "attends to the encoder's vectors: recurrent or transformer")
    ctc_weight: float = setting(0.3, "the share of CTC in the loss beside a decoder; 0: no CTC. Alone, CTC is the loss")
    embedding_dim: int = setting(128, "of inputs that are ids; vectors go to the subsampling as they are")
    dropout: float = setting(0.1, "on subsampled frames and on the output of the encoder")

    def __post_init__(self) -> None:
        require_positive(embedding_dim=self.embedding_dim)
        require_rates(dropout=self.dropout)
        if not 0 <= self.ctc_weight <= 1:
            raise ValueError(f"ctc_weight is a share from 0 to 1, got {self.ctc_weight}")
        if self.decoder is not None and self.ctc_weight == 1:
            raise ValueError("ctc_weight=1 trains no decoder. Leave the decoder out, or choose a smaller ctc_weight")

    @property
    def ctc_share(self) -> float:
        """λ in λ · CTC + (1 − λ) · attention."""
        return 1.0 if self.decoder is None else self.ctc_weight

    @property
    def positions(self) -> int | None:
        """The length of the longest recording in frames; None without a limit."""
        limits = (getattr(self.encoder, "positions", None), getattr(self.decoder, "source_positions", None))
        return _in_frames(limits, self.subsampling.factor)

    @property
    def target_positions(self) -> int | None:
        """The length of the longest transcript in tokens; None without a limit."""
        return None if self.decoder is None else self.decoder.target_positions

    def build(self, source: int | Input, target_vocab: int) -> "Recogniser":
        """The model for an input and a number of tokens, which include the blank."""
        return Recogniser(self, source, target_vocab)


class Encoded(NamedTuple):
    """The encoder's output: a vector for every `stride` frames."""

    hidden: Float[Tensor, "batch outputs dim"]
    """Zeros at padding."""
    lengths: Int[Tensor, " batch"]

    @property
    def batch(self) -> Batch:
        """The vectors as the source of a decoder."""
        return Batch(self.hidden, self.lengths)


class Losses(NamedTuple):
    """The parts of a recogniser's loss, in nats, summed over the batch; None for a part that it lacks."""

    ctc: Float[Tensor, ""] | None
    attention: Float[Tensor, ""] | None


class Recogniser(Seq2Seq[Any]):
    """h = encoder(subsample(x)),  p(a_j | x) = softmax(W h_j + b),  p(y | x) = Σ_{a → y} Π_j p(a_j | x)

    The sum is over all paths a, a label or the blank for every output, that give y after repeated labels are joined
    and blanks are removed. The blank is token 0. A decoder also computes p'(y | x) = Π_i p'(y_i | x, y_<i), and the
    loss is −λ log p(y | x) − (1 − λ) log p'(y | x). `forward`, `start`, `step` and `select` are the decoder's.

    >>> import numpy as np
    >>> from foveate.nn import Vectors
    >>> model = RecogniserConfig().build(Vectors(40), 7).eval()
    >>> recordings = Batch.of([np.zeros((100, 40), np.float32), np.zeros((61, 40), np.float32)])
    >>> log_probabilities, lengths = model.ctc(recordings)
    >>> log_probabilities.shape, lengths.tolist(), model.stride
    (torch.Size([2, 25, 7]), [25, 16], 4)

    Reference: Graves et al. 2006 for CTC; Watanabe et al. 2017, equation 31, for both together.
    """

    def __init__(self, config: RecogniserConfig, source: int | Input, target_vocab: int) -> None:
        super().__init__()
        self.input, self.dropout = input_of(source), config.dropout
        vectors = isinstance(self.input, Vectors)
        width = self.input.width if isinstance(self.input, Vectors) else config.embedding_dim
        self.source_embedding: nn.Module = nn.Identity() if vectors else self.input.build(width, deviation=0.1)
        self.subsampling = config.subsampling.build_for(width)
        self.encoder = config.encoder.build_for(self.subsampling.output_dim)
        self.ctc_share = config.ctc_share
        dim = self.encoder.output_dim
        self.ctc_output = Linear(dim, target_vocab) if config.ctc_share else None
        self.decoder: Speller | TransformerSpeller | None = None
        if config.decoder is not None:
            self.decoder = config.decoder.build_for(dim, target_vocab)
            self.max_length = self.decoder.max_length
        limits = (self.encoder.max_length, getattr(config.decoder, "source_positions", None))
        self.longest_source = _in_frames(limits, config.subsampling.factor)

    @property
    def stride(self) -> int:
        """The number of input frames for one output."""
        return self.subsampling.factor

    def encode(self, source: Batch) -> Encoded:
        """Encode recordings."""
        packing = Packing(source.lengths, source.length)
        x = embed(self.source_embedding, *source.packed(packing))
        x, packing = self.subsampling(x.to(self.dtype), packing=packing)
        x = self.encoder(self._drop(x), packing=packing)
        return Encoded(packing.unpack(self._drop(x)), packing.lengths)

    def under(self, rule: Visibility) -> "Recogniser":
        """This recogniser with the same weights, whose encoder sees only what the rule shows, too: in outputs, each for
        `stride` frames. A decoder attends to all of them.

        Raises UsageError for an encoder without attention under a visibility rule.
        """
        return with_part(self, "encoder", self.encoder.under(rule))

    def stream(self) -> Chain:
        """log p(a_j | x) of outputs j while the frames of one recording arrive: what `ctc` gives for the whole.

        Raises UsageError, with all reasons, where the first output needs the whole recording or the model was trained
        without CTC.
        """
        reasons = ["its only decoder attends to the whole recording"] if self.ctc_output is None else []
        reasons += self.subsampling.stream_refusals()
        if reasons:
            reasons += self.encoder.stream_refusals()
            raise UsageError(f"This recogniser cannot process a stream: {'; '.join(reasons)}.")
        first, last = Pointwise(self._vectors, "input"), Pointwise(self._labels, "labels")
        return Chain([first, *self.subsampling.stream_parts(), self.encoder.stream(), last], "recogniser")

    def _vectors(self, values: Tensor) -> Tensor:
        x: Tensor = self.source_embedding(values).to(self.dtype)
        return x

    def _labels(self, hidden: Float[Tensor, "*shape dim"]) -> Float[Tensor, "*shape vocab"]:
        logits = self._ctc_logits(hidden)
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)

    def ctc(self, source: Batch | Encoded) -> tuple[Float[Tensor, "batch outputs vocab"], Int[Tensor, " batch"]]:
        """log p(a_j | x) of every label at every output, in float32 at least, and the number of outputs of each row.

        Raises TypeError for a model that was trained without CTC.
        """
        encoded = self._encoded(source)
        return self._labels(encoded.hidden), encoded.lengths

    def forward(self, source: Batch | Encoded, target: Batch) -> Float[Tensor, "tokens vocab"]:
        return self._required_decoder()(self._encoded(source).batch, target)

    def loss(self, source: Batch, target: Batch, *, label_smoothing: float = 0.0) -> Float[Tensor, ""]:
        """λ · CTC + (1 − λ) · attention, in nats, summed over rows. Targets are begin + tokens + end.

        Label smoothing applies to the decoder. Raises DataError for a transcript that does not fit into the outputs of
        its recording.
        """
        ctc, attention = self.losses(source, target, label_smoothing=label_smoothing)
        if attention is None:
            assert ctc is not None
            return ctc
        return attention if ctc is None else self.ctc_share * ctc + (1 - self.ctc_share) * attention

    def losses(self, source: Batch, target: Batch, *, label_smoothing: float = 0.0) -> Losses:
        """The parts of the loss, without their shares."""
        encoded, ctc, attention = self.encode(source), None, None
        if self.ctc_output is not None:
            tokens = without_ends(target.ids, target.lengths)
            ctc = ctc_loss(self._ctc_logits(encoded.hidden), encoded.lengths, *tokens)
        if self.decoder is not None:
            attention = self.decoder.loss(encoded.batch, target, label_smoothing=label_smoothing)
        return Losses(ctc, attention)

    def start(self, source: Batch | Encoded, beam: int = 1) -> Any:
        return self._required_decoder().start(self._encoded(source).batch, beam)

    def step(self, state: Any, token: Int[Tensor, " rows"]) -> tuple[Any, Float[Tensor, "rows vocab"]]:
        return self._required_decoder().step(state, token)

    def select(self, state: Any, rows: Int[Tensor, " new_rows"]) -> Any:
        return self._required_decoder().select(state, rows)

    def reorder(self, state: Any, rows: Int[Tensor, " new_rows"]) -> Any:
        return self._required_decoder().reorder(state, rows)

    def join(self, state: Any, later: Any) -> Any:
        return self._required_decoder().join(state, later)

    @property
    def target_embedding(self) -> nn.Embedding:
        """The decoder's embedding of tokens."""
        return self._required_decoder().target_embedding

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights."""
        return next(self.encoder.parameters()).dtype

    def _encoded(self, source: Batch | Encoded) -> Encoded:
        return source if isinstance(source, Encoded) else self.encode(source)

    def _ctc_logits(self, hidden: Float[Tensor, "*shape dim"]) -> Float[Tensor, "*shape vocab"]:
        if self.ctc_output is None:
            raise TypeError("This recogniser has no CTC: it was built with ctc_weight=0. Its decoder writes.")
        return self.ctc_output(hidden)

    def _required_decoder(self) -> Speller | TransformerSpeller:
        if self.decoder is None:
            raise TypeError("This recogniser has no decoder. Search the log-probabilities of `ctc` for the transcript.")
        return self.decoder

    def _drop(self, x: Float[Tensor, "*shape dim"]) -> Float[Tensor, "*shape dim"]:
        return dropout(x, self.dropout, self.training)


def _in_frames(limits: tuple[int | None, ...], factor: int) -> int | None:
    """The smallest limit of outputs, as a number of frames."""
    longest = min((limit for limit in limits if limit is not None), default=None)
    return None if longest is None else longest * factor
