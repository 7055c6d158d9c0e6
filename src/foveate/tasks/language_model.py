"""Language modelling: one text, in which every token is predicted from those before it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from foveate.config import setting
from foveate.data.batch import Batch
from foveate.data.block import BlockPlan, blocks_in_turn
from foveate.data.store import TokenStore
from foveate.data.text import read_lines
from foveate.data.tokeniser import EOS, ByteConfig, Tokeniser, TokeniserConfig, load_tokeniser
from foveate.decode import DecodeConfig, SampleConfig
from foveate.errors import DataError, UsageError
from foveate.models import GPTConfig, LanguageModel, LanguageModelConfig
from foveate.nn.loss import Loss, cross_entropy
from foveate.storage.draft import disk_errors, remove_stale

VALIDATED = ("loss", "perplexity", "bits_per_byte", "accuracy")
"""What `validate` measures, and what may decide which checkpoint is best."""
TOKENISER = "text.tokeniser.json"
LINE_BYTES = 1
"""A line's end is a byte of the text, and one token: `EOS`."""


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """Where the text is and how it becomes batches."""

    text: str = setting("", "file of text; lines end, and everything else is up to the tokeniser")
    valid_text: str | None = setting(None, "validation text; none: the last lines of the text are held out")
    held_out: int = setting(10_000, "lines held out for validation when no file is given; at most a tenth of all")
    block_length: int = setting(128, "tokens that a row of a batch reads")
    max_tokens: int = setting(4096, "tokens per batch")

    def __post_init__(self) -> None:
        for name in ("held_out", "block_length", "max_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class LanguageModelTaskConfig:
    """Everything that defines a language model's run, but how it is trained."""

    data: TextConfig = TextConfig()
    tokeniser: TokeniserConfig = setting(ByteConfig(), "how text becomes tokens")
    model: LanguageModelConfig = setting(GPTConfig(), "the architecture")
    decode: DecodeConfig = setting(SampleConfig(temperature=0.8, top_p=0.95), "how prompts are gone on from")
    seed: int = setting(0, "seed of initial weights and of the order of batches")

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 1 << 63:
            raise ValueError(f"seed must be at least 0 and less than 2 to the power of 63, got {self.seed}")
        position = getattr(self.model, "position", None)
        most = getattr(position, "max_length", None)
        if most is not None and most < self.data.block_length:
            raise ValueError(
                f"data.block_length is {self.data.block_length}, but the model has {most} positions. "
                "Raise model.position.max_length, or lower the block"
            )


class LanguageModelTask:
    """A language model with its text: what training fits.

    The text is one stream of tokens: its lines, each with `EOS` for its end. A stream begins with one `EOS` too, so
    that every token of the text is predicted exactly once, and a line's beginning follows an end as it always does.
    """

    def __init__(
        self, config: LanguageModelTaskConfig, tokeniser: Tokeniser, training: TokenStore, validation: TokenStore
    ) -> None:
        self.config, self.tokeniser = config, tokeniser
        self.training, self.validation = training, validation
        self.plan = BlockPlan(
            num_tokens=training.num_tokens,
            length=config.data.block_length,
            rows=max(config.data.max_tokens // config.data.block_length, 1),
            seed=config.seed,
        )
        self.model: LanguageModel = build_model(config, tokeniser.vocab_size)

    @classmethod
    def prepare(cls, config: LanguageModelTaskConfig, run: Path) -> "LanguageModelTask":
        """Read the text, train the tokeniser, store the tokens in the run folder.

        Raises DataError when a file is missing or unreadable, or too short to train on.
        """
        cut = _cut(config.data)
        tokeniser = config.tokeniser.train(_lines(config.data, "train", cut))
        with disk_errors(run):
            run.mkdir(parents=True, exist_ok=True)
            remove_stale(run / "data")
        tokeniser.save(run / TOKENISER)
        stores = {}
        for part in ("train", "valid"):
            rows = stream(_lines(config.data, part, cut), tokeniser)
            stores[part] = TokenStore.write(
                run / "data" / part, rows, tokeniser.digest(), vocab_size=tokeniser.vocab_size
            )
        return cls(config, tokeniser, stores["train"], stores["valid"])

    @classmethod
    def open(cls, config: LanguageModelTaskConfig, run: Path) -> "LanguageModelTask":
        """The task of a run folder that `prepare` has filled."""
        tokeniser = load_tokeniser(run / TOKENISER)
        training, validation = (TokenStore.open(run / "data" / part) for part in ("train", "valid"))
        if {training.tokeniser_digest, validation.tokeniser_digest} != {tokeniser.digest()}:
            raise DataError(
                f"The tokens in {run / 'data'} were made by another tokeniser than {run / TOKENISER}. "
                "Restore the file of this run, or train again."
            )
        return cls(config, tokeniser, training, validation)

    @property
    def digests(self) -> dict[str, str]:
        """The tokeniser's digest by file name, to be kept with the run."""
        return {TOKENISER: self.tokeniser.digest()}

    @property
    def steps_per_epoch(self) -> int:
        return self.plan.steps_per_epoch

    def batch(self, step: int) -> Batch:
        """Batch number `step`: a pure function of the seed and the step."""
        rows = torch.from_numpy(self.plan.read(self.training.tokens, self.plan.starts(step)))
        return Batch(rows, torch.full((len(rows),), rows.shape[1]), rows.numel())

    def loss(self, batch: Batch) -> Loss:
        return Loss(self.model.loss(batch), batch.num_tokens - batch.size)

    def validate(self) -> dict[str, float]:
        """Cross-entropy in nats per token, its exponential, bits for each byte of the text, and token accuracy."""
        return score(self.model, self.validation.tokens, self.config.data, num_bytes=self.validation_bytes)

    @cached_property
    def validation_bytes(self) -> int:
        """Bytes of the validation text in UTF-8, line ends included."""
        return (
            sum(len(self.tokeniser.decode(row.tolist()).encode()) + LINE_BYTES for row in self.validation) - LINE_BYTES
        )

    def describe(self, batch: Batch) -> str:
        """The first row of a batch as text."""
        return f"{batch.size} rows of the text; the first is {text_of(self.tokeniser, batch.ids[0].tolist())!r}"


@torch.no_grad()
def score(model: LanguageModel, tokens: np.ndarray, data: TextConfig, *, num_bytes: int) -> dict[str, float]:
    """The figures of a stream of tokens, in blocks of `data.block_length` that know nothing of those before."""
    total, right, count = 0.0, 0, 0
    for rows in blocks_in_turn(tokens, data.block_length, max(data.max_tokens // data.block_length, 1)):
        text = Batch.of(rows)
        logits, target = model(model.read(text)), model.predicted(text)
        total += float(cross_entropy(logits, target))
        right += int((logits.argmax(-1) == target).sum())
        count += len(target)
    loss = total / count
    bits = total / math.log(2) / max(num_bytes, 1)
    figures = {"loss": loss, "perplexity": math.exp(min(loss, 700.0)), "bits_per_byte": bits}
    return {**figures, "accuracy": right / count}


def stream(lines: Iterator[str], tokeniser: Tokeniser) -> Iterator[list[int]]:
    """The rows of a store that hold a text: nothing but an end, then every line with its end."""
    yield [EOS]
    for line in lines:
        yield [*tokeniser.encode(line), EOS]


def text_of(tokeniser: Tokeniser, tokens: list[int]) -> str:
    """The text of a stretch of the stream, with its line ends."""
    lines: list[list[int]] = [[]]
    for token in tokens:
        if token == EOS:
            lines.append([])
        else:
            lines[-1].append(token)
    return "\n".join(tokeniser.decode(line) for line in lines)


def build_model(config: LanguageModelTaskConfig, vocab: int) -> LanguageModel:
    """The configured model with its initial weights, a function of the seed.

    Raises UsageError when the settings of the model do not go together.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        try:
            return config.model.build(vocab)
        except (ValueError, RuntimeError, ArithmeticError) as error:  # torch's own checks of sizes raise all three
            raise UsageError(f"The model cannot be built as configured: {error}") from error


def _cut(data: TextConfig) -> int | None:
    """The number of lines that are trained on; None for all of the file. What is held out stands together, at the end:
    lines drawn here and there would be told by their neighbours."""
    if data.valid_text is not None:
        return None
    total = sum(1 for _ in read_lines(data.text))
    wanted = min(data.held_out, total // 10)
    if wanted < 1:
        raise DataError(
            f"{data.text} has {total} lines: too few to hold some out for validation. "
            "Give at least 10, or a validation file with data.valid_text."
        )
    return total - wanted


def _lines(data: TextConfig, part: str, cut: int | None) -> Iterator[str]:
    if data.valid_text is not None:
        return read_lines(data.text if part == "train" else data.valid_text)
    end = cut or 0
    return (line for number, line in enumerate(read_lines(data.text)) if (number < end) == (part == "train"))
