"""One text as a stream of tokens in a run folder: what language models of either kind are trained on."""

import copy
import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from jaxtyping import Int
from torch import nn

from foveate.config import require_counts, setting
from foveate.data.block import BlockPlan
from foveate.data.line_encoding import LineEncoder, LineReport
from foveate.data.row_journal import write_rows
from foveate.data.store import TokenStore
from foveate.data.text import read_lines, require_lasting
from foveate.data.tokeniser import EOS, Tokeniser, TokeniserConfig, load_tokeniser
from foveate.errors import DataError
from foveate.nn.measurement import SharedValidation
from foveate.storage.draft import disk_errors, remove_stale
from foveate.storage.staging import stamps
from foveate.suggestion import counted
from foveate.tasks.run_digest import require_digests
from foveate.tasks.run_model import saved, trained, within_run

TOKENISER = "text.tokeniser.json"
Config = TypeVar("Config", bound=Any)
Model = TypeVar("Model", bound=nn.Module)
Task = TypeVar("Task", bound="TextTask[Any, Any]")


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """The files of text, and the settings that make batches of them."""

    text: str = setting("", "file of text; lines end, and everything else is up to the tokeniser")
    valid_text: str | None = setting(None, "validation text; none: the last lines of the text are held out")
    held_out: int = setting(10_000, "lines held out for validation when no file is given; at most a tenth of all")
    block_length: int = setting(128, "tokens that a row of a batch reads")
    max_tokens: int = setting(4096, "tokens per batch")
    processes: int | None = setting(None, "processes that tokenise the text, with the same result; none: one")
    shard: int | None = setting(
        None,
        "rows of a batch, or lines, shuffled together; of more, shards are shuffled, then the rows of each; none: "
        "100 million",
    )

    def __post_init__(self) -> None:
        require_counts(self, "held_out", "block_length", "max_tokens", "processes", "shard")

    @property
    def rows(self) -> int:
        """Rows of a batch."""
        return max(self.max_tokens // self.block_length, 1)


@dataclass(frozen=True)
class Layout:
    """The conversion of the lines of a file to rows of tokens. By default a line is text, and its end is a token."""

    read: Callable[[str], Iterator[Any]] = read_lines
    texts: Callable[[Iterator[Any]], Iterator[str]] = iter
    """Gives the texts that the tokeniser learns from."""
    encoder: Callable[[Tokeniser], LineEncoder] = LineEncoder
    """Makes the rows of tokens."""
    columns: tuple[int, int] | None = None
    """The columns that `read` chooses, where it does."""


@dataclass(frozen=True)
class TextData:
    """Tokens to train and to validate on, and what made them of the text.

    Each text is one stream of tokens: its lines, each with `EOS` for its end. A stream begins with one `EOS` too, so
    that a line's beginning follows an end as it always does, and every token of the text has one before it.
    """

    tokeniser: Tokeniser
    training: TokenStore
    validation: TokenStore

    @classmethod
    def prepare(
        cls, data: TextConfig, tokeniser_config: TokeniserConfig, run: Path, layout: Layout = Layout()
    ) -> tuple["TextData", LineReport]:
        """Read the text, train the tokeniser, store the tokens in the run folder; with a report on all lines.

        Raises DataError when a file is missing or unreadable, or too short to hold lines out.
        """
        require_lasting(data.text, data.valid_text)
        cut = _cut(data)
        tokeniser = tokeniser_config.train(layout.texts(_lines(data, "train", cut, layout)))
        with disk_errors(run):
            run.mkdir(parents=True, exist_ok=True)
            remove_stale(run / "data")
        tokeniser.save(run / TOKENISER)
        encoder = layout.encoder(tokeniser)
        report = encoder.head.report
        for part in ("train", "valid"):
            report += write_rows(
                run / "data" / part,
                _lines(data, part, cut, layout),
                encoder,
                processes=data.processes or 1,
                origin=json.dumps([stamps(data.text), stamps(data.valid_text), part, cut, layout.columns]),
            )
        stores = [TokenStore.open(run / "data" / part) for part in ("train", "valid")]
        for path, store in zip((data.text, data.valid_text or data.text), stores, strict=True):
            if len(store) == 1:  # the stream's first end
                why = f" {report}" if str(report) else ""
                raise DataError(f"{path} has no lines to learn from or to validate with.{why} Give a file with text.")
        return cls(tokeniser, *stores), report

    @classmethod
    def open(cls, run: Path) -> "TextData":
        """The data that `prepare` has left in a run folder. Raises DataError when its parts do not belong together."""
        tokeniser = load_tokeniser(run / TOKENISER)
        training, validation = (TokenStore.open(run / "data" / part) for part in ("train", "valid"))
        if {training.tokeniser_digest, validation.tokeniser_digest} != {tokeniser.digest()}:
            raise DataError(
                f"The tokens in {run / 'data'} were made by another tokeniser than {run / TOKENISER}. "
                "Restore the file of this run, or train again."
            )
        for store in (training, validation):
            store.require(below=tokeniser.vocab_size)
        return cls(tokeniser, training, validation)


class TextTask(SharedValidation, Generic[Config, Model]):
    """A model of one text, with its text."""

    def __init__(self, config: Config, data: TextData) -> None:
        self.config, self.data = config, data
        self.plan = BlockPlan(
            num_tokens=data.training.num_tokens,
            length=config.data.block_length,
            rows=config.data.rows,
            seed=config.seed,
            shard=config.data.shard,
        )
        self.model: Model = self.initial(config, data.tokeniser.vocab_size)

    @staticmethod
    @abstractmethod
    def initial(config: Any, vocab: int) -> Any:
        """The configured model with its initial weights, a function of the seed.

        Raises UsageError when the settings of the model do not go together.
        """

    @classmethod
    def prepare(cls: type[Task], config: Config, run: Path) -> Task:
        """Put the text into the run folder. Raises DataError as `TextData.prepare` does."""
        return cls(config, TextData.prepare(config.data, config.tokeniser, run)[0])

    @classmethod
    def open(cls: type[Task], config: Config, run: Path) -> Task:
        """The task of a run folder that `prepare` has filled."""
        data = TextData.open(run)
        with within_run(run):
            return cls(config, data)

    @staticmethod
    def layout(config: Any) -> Layout:
        """The conversion of the lines of the text to rows of tokens."""
        return Layout()

    def tested_on(self: Task, path: str, folder: Path) -> Task:
        """This task with another text, which is stored in a folder, in place of its validation data."""
        layout, tokeniser = self.layout(self.config), self.data.tokeniser
        other = copy.copy(self)
        write_rows(folder, layout.read(path), layout.encoder(tokeniser))
        other.data = replace(self.data, validation=TokenStore.open(folder))
        return other

    @property
    def digests(self) -> dict[str, str]:
        """The tokeniser's digest by file name, to be kept with the run."""
        return {TOKENISER: self.data.tokeniser.digest()}

    @property
    def steps_per_epoch(self) -> int:
        return self.plan.steps_per_epoch

    @property
    def validation_batches(self) -> int:
        """Batches that a validation reads."""
        return -(-self.data.validation.num_tokens // (self.config.data.rows * self.config.data.block_length))


def load_text_model(
    run: Path, task: str, kind: type[Any], initial: Callable[[Config, int], Model], note: Callable[[str], None]
) -> tuple[Config, Tokeniser, Model]:
    """Configuration, tokeniser and trained model of a run folder; of an unfinished run, those of its best checkpoint.

    Raises DataError when the folder is not a run, has no trained weights, or is damaged, and UsageError for a run of
    another task.
    """
    config, stored = saved(run, task, kind)
    tokeniser = load_tokeniser(run / TOKENISER)
    require_digests(run, {TOKENISER: tokeniser.digest()}, stored.tokenisers)
    return config, tokeniser, trained(run, lambda: initial(config, tokeniser.vocab_size), note)


def stream(lines: Iterator[str], tokeniser: Tokeniser) -> Iterator[list[int]]:
    """The rows of a store that hold a text: nothing but an end, then every line with its end."""
    yield [EOS]
    for line in lines:
        yield [*tokeniser.encode(line), EOS]


def tokens_of(lines: Sequence[str], tokeniser: Tokeniser) -> Int[np.ndarray, " tokens"]:
    """The stream of a text that is scored. Raises DataError for a text without lines."""
    if not lines:
        raise DataError("The text has no lines: there is nothing to score.")
    return np.concatenate([np.array(row) for row in stream(iter(lines), tokeniser)])


def text_of(tokeniser: Tokeniser, tokens: list[int]) -> str:
    """The text of a stretch of the stream, with its line ends."""
    lines: list[list[int]] = [[]]
    for token in tokens:
        if token == EOS:
            lines.append([])
        else:
            lines[-1].append(token)
    return "\n".join(tokeniser.decode(line) for line in lines)


def _cut(data: TextConfig) -> int | None:
    """The number of lines that are trained on; None for all of the file. What is held out stands together, at the end:
    lines drawn here and there would follow from their neighbours."""
    if data.valid_text is not None:
        return None
    total = sum(1 for _ in read_lines(data.text))
    size = min(data.held_out, total // 10)
    if size < 1:
        raise DataError(
            f"{data.text} has {counted(total, 'line')}: too few to hold some out for validation. "
            "Give at least 10, or a validation file with --valid-text (data.valid_text)."
        )
    return total - size


def _lines(data: TextConfig, part: str, cut: int | None, layout: Layout) -> Iterator[Any]:
    if data.valid_text is not None:
        return layout.read(data.text if part == "train" else data.valid_text)
    end = cut or 0
    return (line for number, line in enumerate(layout.read(data.text)) if (number < end) == (part == "train"))
