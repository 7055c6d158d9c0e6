"""Caption: a sentence about a picture by a decoder that looks at a grid of vectors."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch

from foveate.config import require_counts, setting
from foveate.data.batch import Batch, PairBatch
from foveate.data.image import ImageReader
from foveate.data.parallel import ParallelData
from foveate.data.reader import Example, RowMaker
from foveate.data.tokeniser import TokeniserConfig, WordConfig
from foveate.data.transcript import TextConfig, transcribed
from foveate.decode import BeamConfig, DecodeConfig
from foveate.errors import DataError
from foveate.models import Captioner, CaptionerConfig
from foveate.models.picture_encoder import grid_places
from foveate.nn.embed import Patches
from foveate.nn.measurement import Each, in_turn
from foveate.nn.transfer import beside
from foveate.tasks.held_out import Parts
from foveate.tasks.run_model import require_seed, require_smoothing
from foveate.tasks.text_writing import WritingConfig, WritingTask, batch_plan, count

VALIDATED = ("loss", "accuracy")
"""The figures of `validate`, by which the best checkpoint can be chosen."""


@dataclass(frozen=True, kw_only=True)
class CaptionDataConfig:
    """The files of pictures, and the settings that make batches of them."""

    data: str = setting("", "pictures with their captions: a table of path, tab and caption")
    valid_data: str | None = setting(None, "validation captions; none: some training pictures are held out")
    held_out: int = setting(
        500, "captions held out for validation when no file is given, at most a tenth, with all of their pictures"
    )
    max_length: int = setting(4096, "patches of the largest picture")
    max_text: int = setting(60, "tokens of the longest caption, begin and end included; longer ones are left out")
    max_tokens: int = setting(4_000, "patches and tokens per batch, padding counted")

    def __post_init__(self) -> None:
        require_counts(self, "held_out", "max_length", "max_text", "max_tokens")


@dataclass(frozen=True, kw_only=True)
class CaptionConfig(WritingConfig):
    """Everything that defines a run that captions, except how it is trained."""

    data: CaptionDataConfig = CaptionDataConfig()
    reader: ImageReader = setting(ImageReader(), "how pictures become patches")
    text: TextConfig = setting(TextConfig(), "how captions are written")
    tokeniser: TokeniserConfig = setting(WordConfig(), "how captions become tokens")
    model: CaptionerConfig = setting(CaptionerConfig(), "the architecture")
    decode: DecodeConfig = setting(BeamConfig(), "how captions are searched for: beam, greedy or sample")
    label_smoothing: float = setting(0.0, "probability spread over the vocabulary in the loss")
    seed: int = setting(0, "seed of initial weights, of the held-out choice, of augmentation and the order of batches")
    axes: ClassVar[int] = 2
    """The axes of the places of patches: row and column."""

    def __post_init__(self) -> None:
        require_smoothing(self.label_smoothing)
        if self.reader.augmentation is not None and self.reader.augmentation.mixup:
            raise ValueError(
                f"reader.augmentation.mixup={self.reader.augmentation.mixup} blends the labels of two pictures, and "
                "captions cannot be blended. Leave mixup out"
            )
        require_seed(self.seed)

    def read(self, path: str) -> Iterator[Example]:
        """The pictures of a table with their captions as they are learnt, a line for each caption.

        Raises DataError for a caption without letters.
        """
        return transcribed(self.reader.captions(path), self.text, path)


class PictureParts(Parts):
    """Training and held-out captions that share no picture."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        if not self.drawn:
            return
        names = [str(example.thing) for example in self.read(self.data.data)]
        counts = Counter(names)
        if len(counts) < 2:
            raise DataError(
                f"{self.data.data} has one picture: none can be held out for validation. Give a validation file with "
                "--valid-data (data.valid_data), or more pictures."
            )
        pictures, number_of_captions = set[str](), 0
        for number in np.random.default_rng(config.seed).permutation(sorted(self.drawn)).tolist():
            if (
                names[number] not in pictures
                and number_of_captions < len(self.drawn)
                and len(pictures) + 1 < len(counts)
            ):
                pictures.add(names[number])
                number_of_captions += counts[names[number]]
        self.drawn = frozenset(number for number, name in enumerate(names) if name in pictures)


class CaptionTask(WritingTask):
    """A captioner with its data: what training fits."""

    config: CaptionConfig
    model: Captioner
    parts = PictureParts

    @staticmethod
    def drawn(config: Any) -> str:
        return f"They are the captions of pictures drawn from {config.data.data}."

    def batch(self, step: int) -> PairBatch:
        batch = super().batch(step)
        return replace(batch, source=placed(batch.source, self.rows))

    @torch.no_grad()
    def figures(self, data: ParallelData, each: Each = in_turn) -> dict[str, float]:
        """The loss in nats per token, and the share of tokens that are the most probable after those before them."""
        plan = batch_plan(data, self.config)

        def sums(step: int) -> tuple[float, int, int]:
            batch = beside(self.model, data.batch(plan.examples(step)))
            grid = self.model.encode(placed(batch.source, self.rows))
            logits, predicted = self.model(grid, batch.target), self.model.predicted(batch.target)
            loss = torch.nn.functional.cross_entropy(logits.float(), predicted, reduction="sum")
            return float(loss), int((logits.argmax(-1) == predicted).sum()), count(batch)

        total, right, tokens = map(sum, zip(*each(sums, plan.steps_per_epoch), strict=True))
        return {"loss": total / tokens, "accuracy": right / tokens}


def placed(source: Batch, rows: RowMaker) -> Batch:
    """Patches with their rows and columns, which a store of pictures of one size leaves out."""
    patches = rows.input
    if source.places is not None or not isinstance(patches, Patches):
        return source
    places = grid_places(patches.grid).to(source.values.device)
    return replace(source, places=places.expand(source.size, -1, -1))
