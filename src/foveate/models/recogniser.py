"""A recogniser writes what a recording says: frames are subsampled, encoded, and read by CTC."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention.check import require_positive, require_rates
from foveate.config.field import setting
from foveate.data.batch import Batch
from foveate.models.seq2seq import Seq2Seq
from foveate.nn.ctc_loss import ctc_loss, without_ends
from foveate.nn.dropout import dropout
from foveate.nn.embed import Input, Vectors, embed, input_of
from foveate.nn.encoder import EncoderConfig, TransformerEncoderConfig
from foveate.nn.linear_layer import Linear
from foveate.nn.packing import Packing
from foveate.nn.subsampling import AnySubsamplingConfig, SubsamplingConfig
from foveate.nn.transformer_block import BlockConfig


@dataclass(frozen=True, kw_only=True)
class RecogniserConfig:
    """Subsampling, an encoder over frames, and CTC."""

    subsampling: AnySubsamplingConfig = SubsamplingConfig()
    encoder: EncoderConfig = TransformerEncoderConfig(
        block=BlockConfig(model_dim=128, num_heads=4, feedforward_dim=512, norm="pre"), num_layers=4
    )
    embedding_dim: int = setting(128, "of inputs that are ids; vectors go to the subsampling as they are")
    dropout: float = setting(0.1, "on subsampled frames and on the output of the encoder")

    def __post_init__(self) -> None:
        require_positive(embedding_dim=self.embedding_dim)
        require_rates(dropout=self.dropout)

    @property
    def positions(self) -> int | None:
        """The length of the longest recording in frames; None without a limit."""
        longest = getattr(self.encoder, "positions", None)
        return None if longest is None else longest * self.subsampling.factor

    def build(self, source: int | Input, target_vocab: int) -> "Recogniser":
        """The model for an input and a number of tokens, which include the blank."""
        return Recogniser(self, source, target_vocab)


class Encoded(NamedTuple):
    """The encoder's output: a vector for every `stride` frames."""

    hidden: Float[Tensor, "batch outputs dim"]
    """Zeros at padding."""
    lengths: Int[Tensor, " batch"]


class Recogniser(Seq2Seq[None]):
    """h = encoder(subsample(x)),  p(a_j | x) = softmax(W h_j + b),  p(y | x) = Σ_{a → y} Π_j p(a_j | x)

    The sum is over all paths a, a label or the blank for every output, that give y after repeated labels are joined
    and blanks are removed. The blank is token 0.

    >>> import numpy as np
    >>> from foveate.nn import Vectors
    >>> model = RecogniserConfig().build(Vectors(40), 7).eval()
    >>> recordings = Batch.of([np.zeros((100, 40), np.float32), np.zeros((61, 40), np.float32)])
    >>> log_probabilities, lengths = model.ctc(recordings)
    >>> log_probabilities.shape, lengths.tolist(), model.stride
    (torch.Size([2, 25, 7]), [25, 16], 4)

    Reference: Graves et al. 2006, "Connectionist Temporal Classification".
    """

    def __init__(self, config: RecogniserConfig, source: int | Input, target_vocab: int) -> None:
        super().__init__()
        self.input, self.dropout = input_of(source), config.dropout
        vectors = isinstance(self.input, Vectors)
        width = self.input.width if isinstance(self.input, Vectors) else config.embedding_dim
        self.embedding: nn.Module = nn.Identity() if vectors else self.input.build(width, deviation=0.1)
        self.subsampling = config.subsampling.build_for(width)
        self.encoder = config.encoder.build_for(self.subsampling.output_dim)
        self.ctc_output = Linear(self.encoder.output_dim, target_vocab)

    @property
    def stride(self) -> int:
        """The number of input frames for one output."""
        return self.subsampling.factor

    @property
    def longest_source(self) -> int | None:
        """The length of the longest recording in frames; None without a limit."""
        longest = self.encoder.max_length
        return None if longest is None else longest * self.stride

    def encode(self, source: Batch) -> Encoded:
        """Encode recordings."""
        packing = Packing(source.lengths, source.length)
        x = embed(self.embedding, *source.packed(packing))
        x, packing = self.subsampling(x.to(self.ctc_output.weight.dtype), packing=packing)
        x = self.encoder(self._drop(x), packing=packing)
        return Encoded(packing.unpack(self._drop(x)), packing.lengths)

    def ctc(self, source: Batch | Encoded) -> tuple[Float[Tensor, "batch outputs vocab"], Int[Tensor, " batch"]]:
        """log p(a_j | x) of every label at every output, in float32 at least, and the number of outputs of each row."""
        encoded = self.encode(source) if isinstance(source, Batch) else source
        logits = self.ctc_output(encoded.hidden)
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1), encoded.lengths

    def loss(self, source: Batch, target: Batch, *, label_smoothing: float = 0.0) -> Float[Tensor, ""]:
        """−Σ log p(y | x) over the rows, in nats. Targets are begin + tokens + end.

        Raises DataError for a transcript that does not fit into the outputs of its recording.
        """
        encoded = self.encode(source)
        return ctc_loss(self.ctc_output(encoded.hidden), encoded.lengths, *without_ends(target.ids, target.lengths))

    def forward(self, source: Batch, target: Batch) -> Float[Tensor, "tokens vocab"]:
        raise TypeError("This recogniser has no decoder: `ctc` computes log-probabilities of labels at every output.")

    def start(self, source: Batch, beam: int = 1) -> None:
        raise TypeError("This recogniser has no decoder. Search for the transcript with foveate.decode.ctc.")

    def step(self, state: None, token: Int[Tensor, " rows"]) -> tuple[None, Float[Tensor, "rows vocab"]]:
        raise TypeError("This recogniser has no decoder. Search for the transcript with foveate.decode.ctc.")

    def select(self, state: None, rows: Int[Tensor, " new_rows"]) -> None:
        raise TypeError("This recogniser has no decoder. Search for the transcript with foveate.decode.ctc.")

    def _drop(self, x: Float[Tensor, "*shape dim"]) -> Float[Tensor, "*shape dim"]:
        return dropout(x, self.dropout, self.training)
