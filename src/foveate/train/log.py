"""The output of a run: `metrics.jsonl` for programs, a progress bar or timed lines for people."""

import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from foveate.config import parse_json
from foveate.storage.draft import disk_errors
from foveate.storage.manifest import DamagedError
from foveate.storage.symbolic_link import open_own
from foveate.train.history import to_json

CROWDED = 1.0
"""The seconds within which only the better validations are printed."""


class MetricsLog:
    """A file of JSON rows that only grows; a resumed run first truncates it to its length at the checkpoint.

    `keep` is that length in bytes, from `position()`, so that no row appears twice.
    """

    def __init__(self, path: Path, keep: int = 0) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file = open_own(path, "ab")
        self._file.truncate(min(keep, self._file.tell()))

    def write(self, row: Mapping[str, Any]) -> None:
        """Appends a row; numbers that are not finite become null, because JSON has none."""
        clean = {key: to_json(value) if isinstance(value, float) else value for key, value in row.items()}
        with disk_errors(self._path):
            self._file.write(json.dumps(clean, ensure_ascii=False).encode() + b"\n")
            self._file.flush()

    def position(self) -> int:
        """The length in bytes, after flushing everything to the disk."""
        with disk_errors(self._path):
            os.fsync(self._file.fileno())
        return self._file.seek(0, os.SEEK_END)

    def close(self) -> None:
        """Closes the file. An error in writing has been raised before: every row is flushed."""
        with suppress(OSError):
            self._file.close()


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a `metrics.jsonl`. Raises DamagedError naming a line that training cannot have written."""
    rows = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise DamagedError(f"{path} cannot be read: {error.strerror}. Restore it from a copy of the run.") from None
    for count, line in enumerate(lines, start=1):
        try:
            row = parse_json(line)
        except ValueError as error:
            raise DamagedError(f"{path}:{count} cannot be read as JSON: {error}. Restore it from a copy.") from None
        sound = isinstance(row, dict) and isinstance(row.get("kind"), str) and _is_count(row.get("step"))
        figures = [value for name, value in row.items() if name != "kind"] if sound else []
        if not sound or not all(map(_is_figure, figures)):
            raise DamagedError(f"{path}:{count} is not a row that training writes. Restore it from a copy of the run.")
        rows.append(row)
    return rows


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _is_figure(value: Any) -> bool:
    return value is None or (type(value) in (int, float, bool) and abs(value) <= sys.float_info.max)


@runtime_checkable
class Stream(Protocol):
    """The part of a text file that the displays write to."""

    def write(self, text: str, /) -> Any:
        """Takes some text."""

    def flush(self) -> None:
        """Shows it now."""

    def isatty(self) -> bool:
        """Whether it is a terminal."""


@runtime_checkable
class Progress(Protocol):
    """A receiver of the loop's events."""

    def begin(self, step: int, steps: int, seconds: float | None) -> None:
        """Training starts after `step` of `steps`; `seconds` of a time budget remain."""

    def advance(self, step: int, loss: float) -> None:
        """An update was made. This is called for each, so that it must be cheap."""

    def row(self, row: Mapping[str, Any]) -> None:
        """A row was written to metrics.jsonl."""

    def note(self, sentence: str) -> None:
        """An important message: a warning, or the effect of an interrupt."""

    def tell(self, sentence: str) -> None:
        """A message of interest."""

    def end(self) -> None:
        """Training stopped."""


class Quiet:
    """Prints important messages only."""

    def __init__(self, stream: Stream | None = None) -> None:
        self.stream: Stream = stream or sys.stderr

    def begin(self, step: int, steps: int, seconds: float | None) -> None:
        """Nothing."""

    def advance(self, step: int, loss: float) -> None:
        """Nothing."""

    def row(self, row: Mapping[str, Any]) -> None:
        """Nothing."""

    def note(self, sentence: str) -> None:
        """Prints the sentence on its own line."""
        self.stream.write(f"{sentence}\n")
        self.stream.flush()

    def tell(self, sentence: str) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""


class Lines(Quiet):
    """Prints lines with the time for logs and pipes: at most one in `interval` seconds, and one for each validation.

    Of validations within a second, only the better ones are printed; metrics.jsonl has all.
    """

    def __init__(
        self, stream: Stream | None = None, *, interval: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(stream)
        self.interval = interval
        self._pace = Pace(clock)
        self._clock = clock
        self._printed = self._validated = -math.inf

    def begin(self, step: int, steps: int, seconds: float | None) -> None:
        """Starts the clock of the ETA."""
        self._pace.begin(step, steps, seconds)

    def row(self, row: Mapping[str, Any]) -> None:
        """Prints a line with the row's figures and the remaining time."""
        now = self._clock()
        if row["kind"] == "train":
            if now - self._printed < self.interval:
                return
        elif not row.get("best", True) and now - self._validated < CROWDED:
            return
        else:
            self._validated = now
        self._printed = now
        step = int(row["step"])
        figures = "  ".join(
            [f"step {step:,}/{self._pace.steps:,}", *_figures(row), f"{_duration(self._pace.left(step))} left"]
        )
        self.note(figures)

    def note(self, sentence: str) -> None:
        """Prints the sentence after the time of day."""
        super().note(f"{time.strftime('%H:%M:%S')}  {sentence}")

    def tell(self, sentence: str) -> None:
        """Prints the sentence like a note."""
        self.note(sentence)


class Bar(Quiet):
    """A progress bar in a terminal, redrawn at most ten times a second below validations and notes."""

    def __init__(
        self, stream: Stream | None = None, *, colour: bool | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(stream)
        self.colour = "NO_COLOR" not in os.environ if colour is None else colour
        self._unicode = "utf" in (getattr(self.stream, "encoding", None) or "").lower()
        self._pace = Pace(clock)
        self._clock = clock
        self._drawn = -math.inf
        self._loss = math.nan
        self._speed = ""
        self._validated = -math.inf

    def begin(self, step: int, steps: int, seconds: float | None) -> None:
        """Starts the clock of the ETA."""
        self._pace.begin(step, steps, seconds)

    def advance(self, step: int, loss: float) -> None:
        """Redraws the bar after a pause; the loss is smoothed over about fifty updates."""
        self._loss = 0.98 * self._loss + 0.02 * loss if math.isfinite(self._loss) else loss
        now = self._clock()
        if now - self._drawn >= 0.1:
            self._drawn = now
            self._draw(step)

    def row(self, row: Mapping[str, Any]) -> None:
        """Prints a validation on its own line, of those within a second the better ones; takes the speed from a
        training row.
        """
        if row["kind"] == "train":
            self._speed = f"{row['tokens_per_second']:,.0f} tokens/s"
        elif row.get("best", True) or self._clock() - self._validated >= CROWDED:
            self._validated = self._clock()
            self.note("  ".join([f"step {row['step']:,}", *_figures(row)]))

    def note(self, sentence: str) -> None:
        """Prints a line above the bar."""
        self.stream.write("\r\x1b[2K")
        super().note(sentence)

    def tell(self, sentence: str) -> None:
        """Prints the sentence like a note."""
        self.note(sentence)

    def end(self) -> None:
        """Removes the bar."""
        self.stream.write("\r\x1b[2K")
        self.stream.flush()

    def _draw(self, step: int) -> None:
        share = self._pace.share(step)
        words = [
            f"step {step:,}/{self._pace.steps:,}",
            f"loss {self._loss:.3f}",
            self._speed,
            f"{_duration(self._pace.left(step))} left",
        ]
        text = "  ".join(word for word in words if word)
        room = shutil.get_terminal_size().columns - len(text) - 9
        bar = f"{self._bar(share, min(room, 30))} " if room >= 8 else ""
        self.stream.write(f"\r\x1b[2K{bar}{share:4.0%}  {text}")
        self.stream.flush()

    def _bar(self, share: float, width: int) -> str:
        full, empty = ("━", "─") if self._unicode else ("#", "-")
        done = round(share * width)
        start, stop = ("\x1b[36m", "\x1b[0m") if self.colour else ("", "")
        return f"{start}{full * done}{stop}{empty * (width - done)}"


class Pace:
    """The progress and remaining time of a run, by its steps or by its time budget, whichever ends first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.begin(0, 1, None)

    def begin(self, step: int, steps: int, seconds: float | None) -> None:
        """Starts at a step, with the remaining seconds of a time budget."""
        self._first, self.steps, self._budget, self._started = step, steps, seconds, self._clock()

    def left(self, step: int) -> float:
        """Seconds until the end; infinite before the first step of a run without a budget."""
        used, done = self._clock() - self._started, step - self._first
        by_steps = used / done * (self.steps - step) if done > 0 else math.inf
        return by_steps if self._budget is None else min(max(0.0, self._budget - used), by_steps)

    def share(self, step: int) -> float:
        """The finished share, from 0 to 1."""
        by_steps = step / self.steps
        by_time = (self._clock() - self._started) / self._budget if self._budget else 0.0
        return min(1.0, max(by_steps, by_time))


def watch(stream: Stream | None = None, *, quiet: bool = False) -> Progress:
    """The display for a stream: a bar on a terminal, timed lines in a log or a pipe, important messages when
    `quiet`.
    """
    stream = stream or sys.stderr
    if quiet:
        return Quiet(stream)
    return Bar(stream) if stream.isatty() and os.environ.get("TERM") != "dumb" else Lines(stream)


def _figures(row: Mapping[str, Any]) -> list[str]:
    """The parts of a line: `valid loss 2.345  learning rate 3.0e-04`."""
    hidden = {
        "kind",
        "step",
        "epoch",
        "tokens",
        "seconds",
        "learning_rate",
        "tokens_per_second",
        "best",
        "gradient_norm",
    }
    words = [
        f"{name} {value:.3f}" for name, value in row.items() if name not in hidden and isinstance(value, int | float)
    ]
    if row["kind"] == "train":
        return [*words, f"learning rate {row['learning_rate']:.1e}", f"{row['tokens_per_second']:,.0f} tokens/s"]
    return [row["kind"], *words, *(["best so far"] if row.get("best") else [])]


def _duration(seconds: float) -> str:
    """Seconds as `4:05` or `1:02:03`."""
    if not math.isfinite(seconds):
        return "?:??"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
