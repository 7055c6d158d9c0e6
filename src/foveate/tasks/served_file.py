"""A trained model behind an address that answers recordings, pictures or vectors, by the contents of their files."""

import io
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from foveate.data.audio import AudioRows
from foveate.data.audio_file import Recording, recording_of
from foveate.data.feature import Vector, VectorRows, vector_of
from foveate.data.image import ImageRows
from foveate.data.picture import Picture, picture_of
from foveate.data.waveform import wav
from foveate.errors import UsageError
from foveate.inspect.figure.pixel import photograph
from foveate.interruption import ask
from foveate.tasks.file_limit import LONGEST, MOST_PIXELS, MOST_VECTORS
from foveate.tasks.served import Answered, Reads, Served, require_settings

RATE = 16_000
"""Samples per second of the sounds by which a run is measured."""
TRIES = 2
"""The measurements of each, so that one slow moment does not decide."""


@dataclass(frozen=True)
class _FileKind:
    """A kind of files."""

    reads: Reads
    noun: str
    rows: type[Any]
    """The rows of the models that read them."""
    read: Callable[[bytes, str], Any]
    """Reads a file, with its name for messages."""
    sizes: tuple[int, int]
    """The sizes of the files by which a run is measured."""
    example: Callable[[int, Any], bytes]
    """Noise of such a size, for a model with these rows."""
    units: Callable[[int], int]
    """The amount that a file of such a size costs for."""


class ServedFiles(Served):
    """A model that answers the contents of files: recordings of at most ten minutes, pictures, or vectors in `.npy`."""

    def __init__(self, reader: Any) -> None:
        """Raises UsageError for a reader of something else."""
        super().__init__(reader)
        kind = _kind_of(reader)
        if kind is None:
            raise UsageError("Files are answered by models that read recordings, pictures or vectors.")
        self._kind, self.reads = kind, kind.reads

    @abstractmethod
    def of_rows(self, rows: Sequence[Any], names: Sequence[str], seconds: Sequence[float]) -> list[Answered]:
        """The answers to rows, by the names of their files and the lengths of recordings; 0 for others."""

    def answer(self, texts: Sequence[bytes], settings: Mapping[str, Any]) -> list[Answered]:
        """The answers to the contents of files. Raises DataError for one that is damaged or too long, in the words of
        its reader, and UsageError for a setting.
        """
        require_settings(settings, self.settings)
        noun, rows, seconds = self._kind.noun, [], []
        names = [f"{noun.capitalize()} {number}" for number in range(1, len(texts) + 1)]
        names = names if len(texts) > 1 else [f"The {noun}"]
        for content, name in zip(texts, names, strict=True):
            ask()
            thing = self._kind.read(content, name)
            seconds.append(thing.seconds if isinstance(thing, Recording) else 0.0)
            rows.append(self.row(thing, name))  # samples and pixels are not kept
        return self.of_rows(rows, names, seconds)

    def row(self, thing: Recording | Picture | Vector, name: str) -> Any:
        """The row of a thing."""
        return self.reader.row(thing)

    def strange(self, text: str, settings: Mapping[str, Any]) -> list[str]:
        """No word: files have none."""
        return []

    @property
    def longest(self) -> int | None:
        """The longest row that the model reads, if it has a limit."""
        limit: int | None = self.reader.model.max_length
        return limit

    def price(self) -> tuple[float, float]:
        """The seconds of work for each file, and for each second of sound, pixel or vector, as they are now."""
        kind, sizes = self._kind, self._kind.sizes
        if self.reads == "vectors" and self.longest is not None:
            sizes = (min(sizes[0], self.longest), min(sizes[1], self.longest))
        small, large = (kind.example(size, self.reader.rows) for size in sizes)
        self.answer([large], {})  # the first one prepares kernels
        short, long = (min(self._seconds(content) for _ in range(TRIES)) for content in (small, large))
        less, more = map(kind.units, sizes)
        unit = max(long - short, 0.0) / (more - less) if more > less else 0.0
        return max(short - unit * less, 0.0), unit

    def _seconds(self, content: bytes) -> float:
        started = time.perf_counter()
        self.answer([content], {})
        return time.perf_counter() - started


def reads_of(reader: Any) -> Reads | None:
    """The files that a model reads; None for another one."""
    kind = _kind_of(reader)
    return None if kind is None else kind.reads


def _kind_of(reader: Any) -> _FileKind | None:
    return next((kind for kind in _KINDS if isinstance(reader.rows, kind.rows)), None)


def _sound(seconds: int, rows: AudioRows) -> bytes:
    """Noise as a WAV file."""
    return wav(np.random.default_rng(0).normal(0, 0.1, seconds * RATE), RATE)


def _picture(side: int, rows: ImageRows) -> bytes:
    """Noise as a PNG."""
    return photograph(np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8))


def _vectors(length: int, rows: VectorRows) -> bytes:
    """Noise as an `.npy` file."""
    stream = io.BytesIO()
    np.save(stream, np.random.default_rng(0).normal(0, 1, (length, len(rows.mean))).astype(np.float32))
    return stream.getvalue()


_KINDS = (
    _FileKind(
        "recordings",
        "recording",
        AudioRows,
        lambda content, name: recording_of(content, name, longest=LONGEST),
        sizes=(1, 4),
        example=_sound,
        units=lambda seconds: seconds,
    ),
    _FileKind(
        "pictures",
        "picture",
        ImageRows,
        lambda content, name: picture_of(content, name, largest=MOST_PIXELS),
        sizes=(64, 1024),
        example=_picture,
        units=lambda side: side**2,
    ),
    _FileKind(
        "vectors",
        "file",
        VectorRows,
        lambda content, name: vector_of(content, name, longest=MOST_VECTORS),
        sizes=(16, 1024),
        example=_vectors,
        units=lambda length: length,
    ),
)
