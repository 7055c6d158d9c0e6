"""Makes frames of recordings: log-mel energies or cepstra, normalised and stacked. `audio_table.py` describes files."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from foveate.attention.check import require_positive
from foveate.config import require_choices, setting, to_dict
from foveate.data.audio_file import SUFFIXES, Clip, Recording, rate_of, read_recording, seconds_of
from foveate.data.audio_stream import PassingStream, SlopeStream, StackStream, WindowStream
from foveate.data.audio_table import read_folders, read_table
from foveate.data.augmentation import AugmentationConfig, Geometry, masked
from foveate.data.batch import Batch
from foveate.data.file_table import visible_files
from foveate.data.reader import Example, Reader, StoredRows, VectorType, spread
from foveate.data.row import Row
from foveate.data.spectrum import (
    WINDOW,
    Features,
    deltas,
    hop_length,
    log_mel,
    mel_bands,
    mfcc,
    most_bands,
    stack,
    window_length,
)
from foveate.errors import DataError, UsageError
from foveate.nn.embed import Vectors
from foveate.nn.stream import Chain, Pointwise, Stream
from foveate.suggestion import missing_file

SAMPLE = 500
"""At least as many recordings, if there are as many, determine the mean and deviation of each number."""
PRIOR = 100
"""The number of frames that the statistics of the training data count for in a running normalisation: a second."""
NARROW, WIDE = (8_000, 40), (16_000, 80)
"""Rates and bands for speech of telephones and of microphones."""
_DEPTH = 12.0
"""The range of a drawn spectrogram in nats, 52 dB below the loudest."""
_COLUMNS = 8_000
"""The largest number of columns of a drawn spectrogram."""
_STRETCH = re.compile(r"(.+):(\d+(?:\.\d*)?)-(\d+(?:\.\d*)?)?")
Normalisation = Literal["training", "recording", "running"]


@dataclass(frozen=True, kw_only=True)
class AudioReader(Reader):
    """Recordings with a label or a text each: frames of 25 ms, every 10 ms."""

    kind: ClassVar[str] = "audio"
    what: ClassVar[str] = "recordings"
    rate: int = setting(16_000, "samples per second that recordings are resampled to")
    features: Features = setting("log_mel", "the numbers of a frame; log_mel: energies of bands; mfcc: cepstra")
    bands: int = setting(80, "bands of the spectrum")
    cepstra: int = setting(13, "numbers of a frame of mfcc")
    deltas: int = setting(0, "1: with the slope of each number; 2: also with its slope")
    normalisation: Normalisation = setting(
        "training",
        "mean and deviation of each number. training: of the training data; recording: of the recording; running: of "
        "the recording up to the frame, begun with those of the training data",
    )
    stack: int = setting(1, "consecutive frames that form one vector")
    stride: int = setting(1, "frames between the beginnings of two vectors")
    augmentation: AugmentationConfig | None = setting(None, "changes of training examples; none: they are unchanged")

    def __post_init__(self) -> None:
        require_choices(self)
        require_positive(bands=self.bands, cepstra=self.cepstra, stack=self.stack, stride=self.stride)
        if not 1_000 <= self.rate <= 768_000:
            raise ValueError(f"rate must be from 1,000 to 768,000 samples per second, got {self.rate:,}")
        if self.deltas not in (0, 1, 2):
            raise ValueError(f"deltas must be 0, 1 or 2, got {self.deltas}")
        if self.features == "mfcc" and self.cepstra > self.bands:
            raise ValueError(f"cepstra must be at most bands, {self.bands}, got {self.cepstra}")
        if self.stride > self.stack:
            raise ValueError(f"stride must be at most stack, {self.stack}, or frames are lost; got {self.stride}")
        mel_bands(self.rate, self.bands)

    @property
    def about(self) -> str:
        numbers = f"{self.bands} log-mel energies" if self.features == "log_mel" else f"{self.cepstra} cepstra"
        slopes = ("", ", slopes", ", slopes and their slopes")[self.deltas]
        frames = "each frame" if self.stack == 1 else f"each {self.stack} frames"
        every = 10 * self.stride
        masks = ", with masks in training" if self.augmentation else ""
        return f"{numbers}{slopes} of {frames}, every {every} ms, at {self.rate:,} samples a second{masks}"

    @property
    def geometry(self) -> Geometry:
        """The arrangement of the numbers of a vector."""
        base = self.bands if self.features == "log_mel" else self.cepstra
        return Geometry(base, 1 + self.deltas, self.stack, self.stride)

    def suited(self, sample: Sequence[Example]) -> "AudioReader":
        """Choose the most common rate, 16,000 at most, 40 bands for lower rates, or as many as there can be, and masks
        for training.
        """
        rates = Counter(_rate(one.thing) for one in sample)
        rate = min(rates.most_common(1)[0][0], WIDE[0])
        bands = most_bands(rate, WIDE[1] if rate >= WIDE[0] else NARROW[1])
        return replace(self, rate=rate, bands=bands, augmentation=self.augmentation or AugmentationConfig())

    def read(self, path: str) -> Iterator[Example]:
        """Labelled recordings, which are not yet opened. Raises DataError for a recording without a label, and for
        other files.
        """
        return read_folders(Path(path)) if Path(path).is_dir() else read_table(path)

    def learn(self, examples: Iterable[Example]) -> "AudioRows":
        """Learn the mean and deviation of each number, from recordings that are evenly spread over the examples."""
        chosen = spread(examples, SAMPLE)
        if not chosen:
            raise DataError("The training data have no recordings. Check the table or folder.")
        width = self.geometry.bands * self.geometry.parts
        count, total, squares = 0, torch.zeros(width).double(), torch.zeros(width).double()
        for example in chosen:
            frames = self.frames(_recording(example.thing).at(self.rate)).double()
            count, total, squares = count + len(frames), total + frames.sum(0), squares + (frames**2).sum(0)
        if not count:
            raise DataError(f"No recording of the training data has {1000 * WINDOW:g} ms. Check the table or folder.")
        mean = total / count
        deviation = (squares / count - mean**2).clamp(min=0).sqrt()
        # A constant number is not scaled; only its mean is subtracted.
        deviation[deviation < 1e-3] = 1.0
        return AudioRows(settings=self, mean=tuple(mean.tolist()), deviation=tuple(deviation.tolist()))

    def open(self, folder: Path) -> "AudioRows":
        return AudioRows.open(folder)

    def require_stream(self) -> None:
        """Raises UsageError where vectors are normalised by the whole recording."""
        if self.normalisation == "recording":
            raise UsageError(
                "Vectors that are normalised by the whole recording cannot be made while it arrives. Train with "
                '--set reader.normalisation=running, or "training".'
            )

    def frames(self, recording: Recording) -> Float[Tensor, "frames numbers"]:
        """Energies or cepstra with their slopes, not normalised, of a recording at the reader's rate."""
        return deltas(self.spectrum(torch.from_numpy(recording.samples)), self.deltas)

    def spectrum(self, samples: Float[Tensor, " samples"]) -> Float[Tensor, "frames numbers"]:
        """Energies or cepstra of samples."""
        if self.features == "log_mel":
            return log_mel(samples, self.rate, bands=self.bands)
        return mfcc(samples, self.rate, bands=self.bands, cepstra=self.cepstra)


@dataclass(frozen=True, kw_only=True)
class AudioRows(StoredRows):
    """(frame − mean) / deviation, stacked"""

    kind: ClassVar[str] = "audio"
    dtype: ClassVar[VectorType] = "float16"
    settings: AudioReader
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def __post_init__(self) -> None:
        numbers = self.settings.geometry.bands * self.settings.geometry.parts
        if not len(self.mean) == len(self.deviation) == numbers or min(self.deviation) <= 0:
            raise ValueError(f"mean and deviation need {numbers} numbers, deviations above 0")

    @property
    def input(self) -> Vectors:
        return Vectors(self.settings.geometry.width)

    @property
    def rate(self) -> int:
        """Samples per second that recordings are resampled to."""
        return self.settings.rate

    @property
    def hop(self) -> float:
        """Seconds between the beginnings of two vectors."""
        return self.settings.stride * hop_length(self.rate) / self.rate

    @property
    def first(self) -> float:
        """Seconds from the beginning of a recording to the middle of its first vector."""
        return (window_length(self.rate) + (self.settings.stack - 1) * hop_length(self.rate)) / 2 / self.rate

    def seconds(self, thing: Clip | Recording | Path | str) -> float:
        """The length of a recording."""
        return thing.seconds if isinstance(thing, Recording) else seconds_of(_clip(thing))

    def row(self, thing: Clip | Recording | Path | str) -> Row:
        """The vectors of a recording, none if it is shorter than a window; 16-bit floats, as they are stored."""
        recording = _recording(thing).at(self.rate)
        return Row(self._vectors(recording), remarks=self._remarks(recording))

    @property
    def varied(self) -> bool:
        """Whether the augmentation has other speeds."""
        return bool(self._speeds)

    def variants(self, thing: Clip | Recording | Path | str) -> list[Row]:
        """The rows of a training example at the other speeds of the augmentation."""
        if not self._speeds:
            return []
        recording = _recording(thing).at(self.rate)
        return [Row(self._vectors(recording.faster(speed))) for speed in self._speeds]

    def augmented(self, batch: Batch, examples: Sequence[int], *, seed: int, step: int) -> Batch:
        """A batch of training with the masks of the augmentation: a function of (seed, step, example)."""
        augmentation = self.settings.augmentation
        if augmentation is None:
            return batch
        return masked(batch, examples, augmentation, self.settings.geometry, seed=seed, step=step)

    def normalised(self, frames: Float[Tensor, "frames numbers"]) -> Float[Tensor, "frames numbers"]:
        """(frame − mean) / deviation, by the statistics that the settings name."""
        mean, deviation = torch.tensor(self.mean), torch.tensor(self.deviation)
        if self.settings.normalisation == "training" or not len(frames):
            return (frames - mean) / deviation
        if self.settings.normalisation == "recording":
            spread = frames.std(0, correction=0)
            return (frames - frames.mean(0)) / torch.where(spread < 1e-3, 1.0, spread)
        return running(frames, begun(mean, deviation))[0]

    def stream(self) -> Chain:
        """The vectors of samples at `rate` that arrive piece by piece: those of `row` for the whole recording.

        Raises UsageError where vectors are normalised by the whole recording.
        """
        settings, rate = self.settings, self.rate
        settings.require_stream()
        mean, deviation = torch.tensor(self.mean), torch.tensor(self.deviation)
        parts: list[Stream[Any]] = [
            WindowStream(settings.spectrum, size=window_length(rate), hop=hop_length(rate)),
        ]
        if settings.deltas:
            parts.append(SlopeStream(settings.deltas))
        if settings.normalisation == "running":
            parts.append(PassingStream(running, begun(mean, deviation)))
        else:
            parts.append(Pointwise(lambda frames: (frames - mean) / deviation, "normalisation"))
        if settings.stack > 1:
            parts.append(StackStream(settings.stack, settings.stride))
        return Chain([*parts, Pointwise(lambda vectors: vectors.half().float(), "storage")], "features")

    def track(self, thing: Clip | Recording | Path | str) -> Mapping[str, Any]:
        """The axis of vectors, with a picture of the spectrum and the sound of the same duration."""
        recording = _recording(thing).at(self.rate)
        count = len(self._vectors(recording))
        labels = tuple(f"{vector * self.hop:.2f} s" for vector in range(count))
        axis: dict[str, Any] = {"labels": labels, "kind": "frames", "hop": self.hop, "text": recording.name}
        if not count:
            return axis
        # Vector t is drawn from t · hop to (t + 1) · hop, so the sound begins where the first one is centred.
        begin, length = round((self.first - self.hop / 2) * self.rate), round(count * self.hop * self.rate)
        samples = np.pad(recording.samples[max(begin, 0) :][:length], (max(-begin, 0), 0))[:length]
        samples = np.pad(samples, (0, length - len(samples)))
        sound = Recording(recording.name, samples, self.rate)
        return {**axis, "picture": self._picture(recording, count), "sound": sound}

    def things(self, path: str) -> Iterator[Clip]:
        """A recording, a stretch of one (`talk.wav:1.25-3.00`), or all recordings of a folder."""
        folder = Path(path)
        stretch = _STRETCH.fullmatch(path)
        if not folder.exists() and stretch and Path(stretch[1]).is_file():
            end = None if stretch[3] is None else float(stretch[3])
            return iter([Clip(Path(stretch[1]), float(stretch[2]), end)])
        if not folder.exists():
            kinds = ", ".join(sorted(SUFFIXES))
            raise DataError(f"{missing_file(folder)} This model reads recordings: name files ({kinds}) or a folder.")
        inside = visible_files(folder, SUFFIXES) if folder.is_dir() else ()
        if folder.is_dir() and not inside:
            raise DataError(f"{path} has no recordings ({', '.join(sorted(SUFFIXES))}). Name another folder.")
        return (Clip(one) for one in inside or [folder])

    @property
    def _speeds(self) -> list[float]:
        augmentation = self.settings.augmentation
        return [speed for speed in augmentation.speeds if speed != 1] if augmentation else []

    def _vectors(self, recording: Recording) -> np.ndarray:
        frames = self.normalised(self.settings.frames(recording))
        return stack(frames, self.settings.stack, self.settings.stride).numpy().astype(np.float16)

    def _remarks(self, recording: Recording) -> tuple[str, ...]:
        short = len(recording.samples) < window_length(self.rate)
        return (*recording.remarks, *((f"shorter than a window of {1000 * WINDOW:g} ms",) if short else ()))

    def _picture(self, recording: Recording, count: int) -> UInt8[np.ndarray, "bands columns"]:
        """The log-mel energies, the highest band on top, as shades of grey: black for the smallest."""
        settings = self.settings
        energies = log_mel(torch.from_numpy(recording.samples), self.rate, bands=settings.bands).numpy()
        columns = count * settings.stride
        frames = np.arange(0, columns, -(-columns // _COLUMNS)) + (settings.stack - settings.stride) // 2
        drawn = energies[frames.clip(0, len(energies) - 1)].T[::-1]
        least = max(float(drawn.min()), float(drawn.max()) - _DEPTH)
        shades = (drawn - least).clip(0) / max(float(drawn.max()) - least, 1e-6)
        return np.rint(255 * shades).astype(np.uint8)

    def _plain(self) -> dict[str, Any]:
        return {"kind": self.kind, **to_dict(self)}


Statistics = tuple[float, Tensor, Tensor]
"""The number of frames so far, their sum and the sum of their squares."""


def begun(mean: Float[Tensor, " numbers"], deviation: Float[Tensor, " numbers"]) -> Statistics:
    """Statistics before the first frame: those of the training data count for a second."""
    mean, deviation = mean.double(), deviation.double()
    return float(PRIOR), PRIOR * mean, PRIOR * (mean**2 + deviation**2)


def running(
    frames: Float[Tensor, "frames numbers"], state: Statistics
) -> tuple[Float[Tensor, "frames numbers"], Statistics]:
    """Frames normalised by the statistics up to each frame, itself included, and the statistics after them."""
    count, total, squares = state
    exact = frames.double()
    counts = count + torch.arange(1, len(frames) + 1, dtype=torch.float64)[:, None]
    totals, all_squares = total + exact.cumsum(0), squares + (exact**2).cumsum(0)
    mean = totals / counts
    deviation = (all_squares / counts - mean**2).clamp(min=1e-6).sqrt()
    after = (count + len(frames), total + exact.sum(0), squares + (exact**2).sum(0))
    return ((exact - mean) / deviation).to(frames.dtype), after


def _clip(thing: Clip | Path | str) -> Clip:
    return thing if isinstance(thing, Clip) else Clip(Path(thing))


def _recording(thing: Clip | Recording | Path | str) -> Recording:
    return thing if isinstance(thing, Recording) else read_recording(_clip(thing))


def _rate(thing: Any) -> int:
    return thing.rate if isinstance(thing, Recording) else rate_of(_clip(thing))
