"""The text of a recording while its samples arrive."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from foveate.data.audio_file import LOUDEST
from foveate.data.reader import RowMaker
from foveate.data.tokeniser import Tokeniser
from foveate.decode import CTCConfig
from foveate.decode.prefix_search import Partial, PrefixState, PrefixStream
from foveate.errors import DataError, UsageError
from foveate.models import Recogniser
from foveate.nn.latency import Latency, latency
from foveate.nn.stream import Chain, ChainState
from foveate.tasks.transcribe.recognition import SETTLED
from foveate.tasks.translate.translation import one_line


@dataclass(frozen=True, eq=False)
class TextState:
    """The state of the network, which does not grow, and that of the search, which holds the text."""

    network: ChainState
    search: PrefixState


class TextStream:
    """samples → vectors → log-probabilities → text, for one recording in pieces of any size

    The text after the last piece is that of prefix search over the whole recording under the same visibility. Raises
    UsageError, with the reasons, for a model or vectors that need the whole recording.
    """

    def __init__(
        self,
        model: Recogniser,
        rows: RowMaker,
        tokeniser: Tokeniser,
        config: CTCConfig = CTCConfig(settle_after=SETTLED),
    ) -> None:
        stream, rate = getattr(rows, "stream", None), getattr(rows, "rate", None)
        if stream is None or rate is None:
            raise UsageError(
                f"{type(rows).__name__} makes vectors of whole files and cannot read samples while they arrive. "
                "A model that was trained on recordings can."
            )
        self.rate: int = rate
        """Samples per second of the pieces."""
        self.network = Chain([stream(), model.stream()], "transcriber")
        self.search, self.tokeniser = PrefixStream(config), tokeniser

    @property
    def seconds(self) -> float:
        """The time that an output, a frame of `Partial.frames`, stands for."""
        return self.network.stride / self.rate

    @property
    def latency(self) -> Latency:
        """The time that an output waits for later sound, by the design of the model."""
        return latency(self.network, 1 / self.rate)

    def begin(self) -> TextState:
        """The state before the first sample."""
        return TextState(self.network.begin(), self.search.begin())

    @torch.inference_mode()
    def advance(self, state: TextState, samples: Tensor | np.ndarray, *, last: bool) -> tuple[TextState, Partial]:
        """The state and the text after these samples, floats from −1 to 1 at `rate`; `last` says that no others follow.

        Raises UsageError after the last piece, and DataError for other samples: whole numbers, several channels,
        numbers that are not finite or far beyond 1.
        """
        piece = _samples(samples)
        network, outputs = self.network.advance(state.network, piece, last=last)
        search, partial = self.search.advance(state.search, outputs, last=last)
        return TextState(network, search), partial

    def text(self, partial: Partial, *, certain: bool = False) -> str:
        """The text so far, or only its part that cannot change any more."""
        return one_line(self.tokeniser.decode(partial.tokens[: partial.certain] if certain else partial.tokens))


def _samples(samples: Any) -> Float[Tensor, " samples"]:
    piece = torch.as_tensor(samples)
    if piece.dim() != 1 or not piece.is_floating_point():
        raise DataError(
            f"A piece of a stream is one row of floats from −1 to 1, got {piece.dtype} of shape {tuple(piece.shape)}. "
            "Take the mean of channels; divide 16-bit samples by 32,768."
        )
    if piece.numel() and not float(piece.abs().max()) <= LOUDEST:
        raise DataError(
            f"A piece of a stream has samples that are not numbers, or beyond ±{LOUDEST:g}, where 1 is full scale. "
            "Divide them by the largest value of their format."
        )
    return piece.float()
