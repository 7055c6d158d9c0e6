"""One text as a stream of tokens in a run folder: what language models of either kind are trained on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from foveate.config import setting
from foveate.data.block import BlockPlan
from foveate.data.store import TokenStore
from foveate.data.text import read_lines
from foveate.data.tokeniser import EOS, Tokeniser, TokeniserConfig, load_tokeniser
from foveate.errors import DataError
from foveate.storage.draft import disk_errors, remove_stale

TOKENISER = "text.tokeniser.json"


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

    @property
    def rows(self) -> int:
        """Rows of a batch."""
        return max(self.max_tokens // self.block_length, 1)


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
    def prepare(cls, data: TextConfig, tokeniser_config: TokeniserConfig, run: Path) -> "TextData":
        """Read the text, train the tokeniser, store the tokens in the run folder.

        Raises DataError when a file is missing or unreadable, or too short to hold lines out.
        """
        cut = _cut(data)
        tokeniser = tokeniser_config.train(_lines(data, "train", cut))
        with disk_errors(run):
            run.mkdir(parents=True, exist_ok=True)
            remove_stale(run / "data")
        tokeniser.save(run / TOKENISER)
        stores = [
            TokenStore.write(
                run / "data" / part,
                stream(_lines(data, part, cut), tokeniser),
                tokeniser.digest(),
                vocab_size=tokeniser.vocab_size,
            )
            for part in ("train", "valid")
        ]
        return cls(tokeniser, *stores)

    @classmethod
    def open(cls, run: Path) -> "TextData":
        """What `prepare` has left in a run folder. Raises DataError when its parts do not belong together."""
        tokeniser = load_tokeniser(run / TOKENISER)
        training, validation = (TokenStore.open(run / "data" / part) for part in ("train", "valid"))
        if {training.tokeniser_digest, validation.tokeniser_digest} != {tokeniser.digest()}:
            raise DataError(
                f"The tokens in {run / 'data'} were made by another tokeniser than {run / TOKENISER}. "
                "Restore the file of this run, or train again."
            )
        return cls(tokeniser, training, validation)

    @property
    def digests(self) -> dict[str, str]:
        """The tokeniser's digest by file name, to be kept with the run."""
        return {TOKENISER: self.tokeniser.digest()}


def load_text_tokeniser(run: Path, digests: Mapping[str, str]) -> Tokeniser:
    """The tokeniser of a run. Raises DataError when the file is missing, damaged or another run's."""
    tokeniser = load_tokeniser(run / TOKENISER)
    if tokeniser.digest() != digests.get(TOKENISER, tokeniser.digest()):
        raise DataError(
            f"{run / TOKENISER} is not the tokeniser that this model was trained with. Restore the file of this run."
        )
    return tokeniser


def block_plan(data: TextConfig, store: TokenStore, seed: int) -> BlockPlan:
    """How the text becomes batches."""
    return BlockPlan(num_tokens=store.num_tokens, length=data.block_length, rows=data.rows, seed=seed)


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
