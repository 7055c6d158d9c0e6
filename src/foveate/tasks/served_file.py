"""A trained model behind an address that answers recordings, pictures or vectors, by the contents of their files."""

import io
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
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
from foveate.tasks.file_limit import LONGEST, MOST_PIXELS
from foveate.tasks.served import Answered, Reads, Served, require_settings

RATE = 16_000
"""Samples per second of the sounds by which a run is measured."""
SIZES: dict[Reads, tuple[int, int]] = {"recordings": (1, 4), "pictures": (64, 1024), "vectors": (16, 1024)}
"""The seconds of these sounds, the sides of pictures, and the numbers of vectors."""
TRIES = 2
"""The measurements of each, so that one slow moment does not decide."""


class ServedFiles(Served):
    """A model that answers the contents of files: recordings of at most ten minutes, pictures, or vectors in `.npy`."""

    def __init__(self, reader: Any) -> None:
        """Raises UsageError for a reader of something else."""
        super().__init__(reader)
        reads = reads_of(reader)
        if reads is None:
            raise UsageError("Files are answered by models that read recordings, pictures or vectors.")
        self.reads = reads

    @abstractmethod
    def of_rows(self, rows: Sequence[Any], names: Sequence[str], seconds: Sequence[float]) -> list[Answered]:
        """The answers to rows, by the names of their files and the lengths of recordings; 0 for others."""

    def answer(self, texts: Sequence[bytes], settings: Mapping[str, Any]) -> list[Answered]:
        """The answers to the contents of files. Raises DataError for one that is damaged or too long, in the words of
        its reader, and UsageError for a setting.
        """
        require_settings(settings, self.settings)
        kind = self.reads.removesuffix("s")
        rows, seconds = [], []
        kind = "file" if self.reads == "vectors" else kind
        names = [f"{kind.capitalize()} {number}" for number in range(1, len(texts) + 1)]
        names = names if len(texts) > 1 else [f"The {kind}"]
        for content, name in zip(texts, names, strict=True):
            ask()
            thing = self.thing(content, name)
            seconds.append(thing.seconds if isinstance(thing, Recording) else 0.0)
            rows.append(self.row(thing, name))  # samples and pixels are not kept
        return self.of_rows(rows, names, seconds)

    def thing(self, content: bytes, name: str) -> Recording | Picture | Vector:
        """The samples, pixels or numbers of a file."""
        if self.reads == "recordings":
            return recording_of(content, name, longest=LONGEST)
        if self.reads == "vectors":
            return vector_of(content, name)
        return picture_of(content, name, largest=MOST_PIXELS)

    def row(self, thing: Recording | Picture | Vector, name: str) -> Any:
        """The row of a thing."""
        return self.reader.row(thing)

    def strange(self, text: str, settings: Mapping[str, Any]) -> list[str]:
        """No word: files have none."""
        return []

    def price(self) -> tuple[float, float]:
        """The seconds of work for each file, and for each second of sound, pixel, or byte of vectors, as they are
        now.
        """
        sizes = SIZES[self.reads]
        small, large = (self._example(size) for size in sizes)
        self.answer([large], {})  # the first one prepares kernels
        short, long = (min(self._seconds(content) for _ in range(TRIES)) for content in (small, large))
        if self.reads == "vectors":
            less, more = len(small), len(large)
        else:
            less, more = sizes if self.reads == "recordings" else (size**2 for size in sizes)
        unit = max(long - short, 0.0) / (more - less)
        return max(short - unit * less, 0.0), unit

    def _example(self, size: int) -> bytes:
        """Noise as a file, no longer than the model reads."""
        if self.reads == "recordings":
            return _sound(size)
        if self.reads == "pictures":
            return _picture(size)
        longest = self.reader.model.max_length
        return _vectors(size if longest is None else min(size, longest), len(self.reader.rows.mean))

    def _seconds(self, content: bytes) -> float:
        started = time.perf_counter()
        self.answer([content], {})
        return time.perf_counter() - started


def reads_of(reader: Any) -> Reads | None:
    """The files that a model reads; None for another one."""
    kinds: dict[type[Any], Reads] = {AudioRows: "recordings", ImageRows: "pictures", VectorRows: "vectors"}
    return next((reads for kind, reads in kinds.items() if isinstance(reader.rows, kind)), None)


def _sound(seconds: int) -> bytes:
    """Noise as a WAV file."""
    return wav(np.random.default_rng(0).normal(0, 0.1, seconds * RATE), RATE)


def _picture(side: int) -> bytes:
    """Noise as a PNG."""
    return photograph(np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8))


def _vectors(length: int, width: int) -> bytes:
    """Noise as an `.npy` file."""
    stream = io.BytesIO()
    np.save(stream, np.random.default_rng(0).normal(0, 1, (length, width)).astype(np.float32))
    return stream.getvalue()
