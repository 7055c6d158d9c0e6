"""Language modelling: one text, in which every token is predicted from those before it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from foveate.config import setting
from foveate.data.batch import Batch
from foveate.data.block import blocks_in_turn
from foveate.data.text import read_lines
from foveate.data.tokeniser import ByteConfig, TokeniserConfig
from foveate.decode import DecodeConfig, SampleConfig
from foveate.models import GPTConfig, LanguageModel, LanguageModelConfig
from foveate.nn.loss import Loss, cross_entropy
from foveate.nn.measurement import Each, in_turn
from foveate.nn.transfer import beside
from foveate.storage.manifest import DamagedError, read_json, write_json
from foveate.tasks.run_model import require_seed, seeded
from foveate.tasks.text_task import TextConfig, TextData, TextTask, text_of
from foveate.tasks.unlikelihood_loss import UnlikelihoodConfig

VALIDATED = ("loss", "perplexity", "bits_per_byte", "accuracy")
"""The figures of `validate`, by which the best checkpoint can be chosen."""
LINE_BYTES = 1
"""The end of a line is one byte of the text, and one token: `EOS`."""
COUNTED = Path("data") / "bytes.json"
"""The file in a run folder with the number of bytes of the validation text, which tokens may not preserve."""


@dataclass(frozen=True, kw_only=True)
class LanguageModelTaskConfig:
    """Everything that defines a language model's run, except how it is trained."""

    data: TextConfig = TextConfig()
    tokeniser: TokeniserConfig = setting(ByteConfig(), "how text becomes tokens")
    model: LanguageModelConfig = setting(GPTConfig(), "the architecture")
    unlikelihood: UnlikelihoodConfig = setting(UnlikelihoodConfig(), "the loss of phrases that repeat by mistake")
    decode: DecodeConfig = setting(SampleConfig(temperature=0.8, top_p=0.95), "how prompts are gone on from")
    seed: int = setting(0, "seed of initial weights and of the order of batches")

    def __post_init__(self) -> None:
        require_seed(self.seed)
        most: int | None = getattr(self.model, "positions", None)
        if most is not None and most < self.data.block_length:
            raise ValueError(
                f"data.block_length is {self.data.block_length}, but the model has {most} positions. "
                "Raise max_length, of the model's positions or attention, or lower the block"
            )


def text_bytes(lines: Iterable[str]) -> int:
    """The number of bytes of a text in UTF-8 with its line ends: the divisor of bits per byte for every tokeniser.

    >>> text_bytes(["the", "café"])
    10
    """
    return sum(len(line.encode()) + LINE_BYTES for line in lines)


def loss_of_text(model: LanguageModel, config: LanguageModelTaskConfig, text: Batch) -> Tensor:
    """The training loss in nats, summed."""
    if not config.unlikelihood.weight:
        return model.loss(text)
    predictions = model.predictions(text)
    words = predictions.cross_entropy(model.predicted(text))
    return words + config.unlikelihood.loss(predictions, text.ids[:, 1:], text.lengths - 1)


class LanguageModelTask(TextTask[LanguageModelTaskConfig, LanguageModel]):
    """A language model with its text, for training. Every token of the text is predicted exactly once."""

    def __init__(self, config: LanguageModelTaskConfig, data: TextData, counted: int | None = None) -> None:
        """`counted` is the number of bytes of the validation text, if it is known."""
        super().__init__(config, data)
        config.unlikelihood.require_logits(self.model, LanguageModel.loss)
        self.counted = counted

    @classmethod
    def prepare(cls, config: LanguageModelTaskConfig, run: Path) -> "LanguageModelTask":
        task = super().prepare(config, run)
        data, trained = config.data, len(task.data.training) - 1
        held_out = data.valid_text is None
        lines = islice(read_lines(data.text), trained, None) if held_out else read_lines(str(data.valid_text))
        task.counted = text_bytes(lines)
        write_json(run / COUNTED, {"valid": task.counted})
        return task

    @classmethod
    def open(cls, config: LanguageModelTaskConfig, run: Path) -> "LanguageModelTask":
        counted = read_json(run / COUNTED).get("valid", "") if (run / COUNTED).exists() else None
        if counted is not None and (type(counted) is not int or not 0 <= counted < 2**53):
            raise DamagedError(
                f"{run / COUNTED} does not count the bytes of the validation text. Restore it from a copy."
            )
        return cls(config, TextData.open(run), counted)

    def tested_on(self, path: str, folder: Path) -> "LanguageModelTask":
        other = super().tested_on(path, folder)
        vars(other).pop("validation_bytes", None)
        other.counted = text_bytes(read_lines(path))
        return other

    @staticmethod
    def initial(config: LanguageModelTaskConfig, vocab: int) -> LanguageModel:
        return seeded(lambda: config.model.build(vocab), config.seed)

    def batch(self, step: int) -> Batch:
        """Batch number `step`: a pure function of the seed and the step."""
        rows = torch.from_numpy(self.plan.read(self.data.training.tokens, self.plan.starts(step)))
        return Batch(rows, torch.full((len(rows),), rows.shape[1]), rows.numel())

    def loss(self, batch: Batch) -> Loss:
        return Loss(loss_of_text(self.model, self.config, batch), batch.num_tokens - batch.size)

    def measured(self, each: Each) -> dict[str, float]:
        """Cross-entropy in nats per token, its exponential, bits for each byte of the text, and token accuracy."""
        tokens, count = self.data.validation.tokens, self.validation_bytes
        return score(self.model, tokens, self.config.data, num_bytes=count, each=each)

    @cached_property
    def validation_bytes(self) -> int:
        """`text_bytes` of the validation text; in runs of earlier versions, of its decoded tokens."""
        if self.counted is not None:
            return self.counted
        return text_bytes(self.data.tokeniser.decode(row.tolist()) for row in self.data.validation) - LINE_BYTES

    def describe(self, batch: Batch) -> str:
        """The first row of a batch as text."""
        return f"{batch.size} rows of the text; the first is {text_of(self.data.tokeniser, batch.ids[0].tolist())!r}"


@torch.no_grad()
def score(
    model: LanguageModel,
    tokens: np.ndarray,
    data: TextConfig,
    *,
    num_bytes: int,
    context: int = 0,
    each: Each = in_turn,
) -> dict[str, float]:
    """The figures of a stream of tokens, in blocks of `data.block_length`.

    Every token is predicted once. A block begins with the last `context` tokens of the one before, which it only
    reads: with none, it knows nothing of what came before, and its first predictions suffer.
    """
    batches = blocks_in_turn(tokens, data.block_length, data.rows, context=context)

    def sums(number: int) -> tuple[float, int, int]:
        rows = batches[number]
        text = beside(model, Batch.of([row.tokens for row in rows]))
        scored = torch.cat([torch.arange(len(row.tokens) - 1) >= row.known for row in rows])
        logits, target = model(model.read(text))[scored], model.predicted(text)[scored]
        return float(cross_entropy(logits, target)), int((logits.argmax(-1) == target).sum()), len(target)

    total, right, count = map(sum, zip(*each(sums, len(batches)), strict=True))
    loss = total / count
    bits = total / math.log(2) / max(num_bytes, 1)
    figures = {"loss": loss, "perplexity": math.exp(min(loss, 700.0)), "bits_per_byte": bits}
    return {**figures, "accuracy": right / count}
