"""A captioner describes a picture: an encoder makes a grid of vectors, and a decoder looks at it and writes."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention.check import require_positive, require_rates
from foveate.config.field import setting
from foveate.data.batch import Batch
from foveate.models.convolution import PictureCNNConfig
from foveate.models.gaze import GazeConfig, GazeDecoder
from foveate.models.glimpse import Glimpses, draws_places
from foveate.models.picture_encoder import PictureEncoder
from foveate.models.picture_family import PictureEncoderConfig
from foveate.models.seq2seq import Seq2Seq
from foveate.models.speller import SpellerConfig, TransformerSpellerConfig
from foveate.models.vit import ViTConfig
from foveate.nn.dropout import dropout
from foveate.nn.embed import Input, embed, input_of
from foveate.nn.encoder import Encoder, EncoderConfig
from foveate.nn.packing import Packing
from foveate.nn.position_vector import LearnedPosition

AnyGazeConfig = GazeConfig | SpellerConfig | TransformerSpellerConfig
"""The decoders of a captioner that a configuration can select: "gaze", "recurrent", "transformer"."""


@dataclass(frozen=True, kw_only=True)
class CaptionerConfig:
    """An encoder over the patches of a picture, and a decoder that attends to its vectors."""

    encoder: EncoderConfig | PictureEncoderConfig = setting(
        PictureCNNConfig(), "makes a grid of vectors of patches; those of pictures embed them by themselves"
    )
    decoder: AnyGazeConfig = setting(GazeConfig(), "gaze, as in Show, Attend and Tell; recurrent; transformer")
    placed: bool = setting(True, "add trained vectors for its row and its column to each vector of the grid")
    embedding_dim: int = setting(128, "of patches, before an encoder that does not embed them by itself")
    dropout: float = setting(0.1, "on embedded patches and on the output of the encoder")

    def __post_init__(self) -> None:
        require_positive(embedding_dim=self.embedding_dim)
        require_rates(dropout=self.dropout)
        if isinstance(self.encoder, ViTConfig) and self.encoder.class_tokens:
            raise ValueError(
                f"encoder.class_tokens={self.encoder.class_tokens} are vectors without a place, and a decoder looks at "
                "places. Leave class_tokens out"
            )

    @property
    def positions(self) -> int | None:
        """The largest number of patches; None without a limit."""
        limits = (getattr(self.encoder, "positions", None), self.decoder.source_positions)
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def target_positions(self) -> int | None:
        """The length of the longest caption in tokens; None without a limit."""
        return self.decoder.target_positions

    def build(self, source: int | Input, target_vocab: int) -> "Captioner":
        """The model for an input and a number of tokens."""
        return Captioner(self, source, target_vocab)


class Grid(NamedTuple):
    """The encoder's output: a vector for each place of a picture."""

    hidden: Float[Tensor, "batch cells dim"]
    """Zeros at padding."""
    lengths: Int[Tensor, " batch"]

    @property
    def batch(self) -> Batch:
        """The vectors as the source of a decoder."""
        return Batch(self.hidden, self.lengths)


class Captioner(Seq2Seq[Any]):
    """a_i = encoder(E x)_i + r_{row(i)} + c_{column(i)},  p(y | x) = Π_t p(y_t | y_<t, a)

    x are patches and a the places that the decoder looks at. `forward`, `start`, `step` and `select` are the decoder's.

    >>> import numpy as np
    >>> from foveate.data.row import Row
    >>> from foveate.nn import Patches
    >>> model = CaptionerConfig().build(Patches(size=4, channels=1, grid=(2, 3)), 7).eval()
    >>> picture = Row(np.zeros((6, 16), np.float32), places=np.indices((2, 3)).reshape(2, -1).T)
    >>> model(Batch.of([picture]), Batch.of([[1, 5, 6, 2]])).shape
    torch.Size([3, 7])
    """

    def __init__(self, config: CaptionerConfig, source: int | Input, target_vocab: int) -> None:
        super().__init__()
        self.input, self.dropout = input_of(source), config.dropout
        self.source_embedding, self.encoder = _encoder(config, self.input)
        self.row, self.column = _axes(self.grid if config.placed else None, self.encoder.output_dim)
        self.decoder: Seq2Seq[Any] = config.decoder.build_for(self.encoder.output_dim, target_vocab)
        self.max_length = self.decoder.max_length
        self.longest_source = config.positions

    @property
    def grid(self) -> tuple[int, int] | None:
        """The rows and columns of places that the decoder looks at; None for rows that have no places."""
        return getattr(self.encoder, "grid", None) or getattr(self.input, "grid", None)

    def encode(self, source: Batch) -> Grid:
        """The vectors of pictures."""
        if isinstance(self.encoder, PictureEncoder):
            x, packing = self.encoder.encode(source)
        else:
            packing = Packing(source.lengths, source.length)
            x = embed(self.source_embedding, *source.packed(packing))
            x = self.encoder(self._drop(x), packing=packing)
        if self.row is not None and self.column is not None:
            row, column = self._places(source, packing)
            x = x + self.row(row) + self.column(column)
        return Grid(packing.unpack(self._drop(x)), packing.lengths)

    def forward(self, source: Batch | Grid, target: Batch) -> Float[Tensor, "tokens vocab"]:
        return self.decoder(self._grid(source), target)

    def loss(self, source: Batch, target: Batch, *, label_smoothing: float = 0.0) -> Float[Tensor, ""]:
        """The decoder's loss, in nats, summed."""
        return self.decoder.loss(self._grid(source), target, label_smoothing=label_smoothing)

    def start(self, source: Batch | Grid, beam: int = 1, *, glimpses: Glimpses | None = None) -> Any:
        """Read the pictures. `glimpses` are for a decoder whose hard attention has learnt from draws."""
        grid = self._grid(source)
        if glimpses is None:
            return self.decoder.start(grid, beam)
        if not isinstance(self.decoder, GazeDecoder):
            raise ValueError("glimpses are drawn by a gaze decoder with hard attention")
        return self.decoder.start(grid, beam, glimpses=glimpses)

    @property
    def draws_places(self) -> bool:
        """Whether the decoder can draw its places while it writes."""
        return draws_places(getattr(self.decoder, "attention", None))

    def step(self, state: Any, token: Int[Tensor, " rows"]) -> tuple[Any, Float[Tensor, "rows vocab"]]:
        return self.decoder.step(state, token)

    def select(self, state: Any, rows: Int[Tensor, " new_rows"]) -> Any:
        return self.decoder.select(state, rows)

    def reorder(self, state: Any, rows: Int[Tensor, " new_rows"]) -> Any:
        return self.decoder.reorder(state, rows)

    def join(self, state: Any, later: Any) -> Any:
        decoder: Any = self.decoder
        return decoder.join(state, later)

    @property
    def target_embedding(self) -> nn.Embedding:
        """The decoder's embedding of tokens."""
        embedding: nn.Embedding = self.decoder.target_embedding  # type: ignore[assignment]
        return embedding

    def _places(self, source: Batch, packing: Packing) -> tuple[Int[Tensor, " tokens"], Int[Tensor, " tokens"]]:
        """The row and the column of each vector of the grid."""
        if isinstance(self.encoder, PictureEncoder):
            places = self.encoder.places().to(source.values.device).repeat(source.size, 1)
        else:
            assert source.places is not None
            places = packing.pack(source.places)
        return places[:, 0], places[:, 1]

    def _grid(self, source: Batch | Grid) -> Batch:
        return (source if isinstance(source, Grid) else self.encode(source)).batch

    def _drop(self, x: Float[Tensor, "*shape dim"]) -> Float[Tensor, "*shape dim"]:
        return dropout(x, self.dropout, self.training)


def _axes(grid: tuple[int, int] | None, dim: int) -> tuple[LearnedPosition | None, LearnedPosition | None]:
    """The vectors of rows and columns."""
    if grid is None:
        return None, None
    return LearnedPosition(dim, grid[0]), LearnedPosition(dim, grid[1])


def _encoder(config: CaptionerConfig, source: Input) -> tuple[nn.Module, Encoder | PictureEncoder]:
    """Embedding and encoder. Encoders of pictures embed patches by themselves."""
    if isinstance(config.encoder, PictureEncoderConfig):
        plain = replace(config.encoder, class_tokens=0) if isinstance(config.encoder, ViTConfig) else config.encoder
        return nn.Identity(), plain.build_encoder(source)
    embedding = source.build(config.embedding_dim, deviation=0.1)
    return embedding, config.encoder.build_for(config.embedding_dim)
