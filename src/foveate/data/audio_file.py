"""Reads recordings, WAV, FLAC, OGG and others, by libsndfile: samples of one channel, at any rate.

The size of a recording is read from its header, and limited, before anything is decoded.
"""

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from foveate.data.audio_header import end_of_samples, mp3_samples, ogg_ends, ogg_streams
from foveate.errors import DataError, SetupError
from foveate.suggestion import missing_file

SUFFIXES = frozenset({".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff", ".au", ".sph", ".w64", ".caf"})
LONGEST = 4 * 3600.0
"""The limit on the length of a recording, or of a stretch of one, in seconds."""
MOST_SAMPLES = 1 << 26
"""The limit on the samples of a recording whose content is in memory: 256 MB, 23 minutes at 48,000 a second."""
RATES = (1_000, 768_000)
"""The limits on the rate, in samples per second."""
CHANNELS = 64
"""The limit on the number of channels."""
LOUDEST = 16.0
"""The limit on the absolute value of a sample, where 1 is full scale: floats may exceed 1 a little, after a filter."""
FULL = 0.9999
"""The absolute value from which a sample counts as full scale: 32,765 of 32,768."""
CLIPPED = 4
"""The number of neighbouring samples at full scale, with one sign, from which a recording counts as clipped."""
SILENT = 1e-4
"""The largest absolute value in a recording that counts as silent: 3 steps of 16 bits."""
CUT = "cut off: the file ends before the last sample that its header promises"
"""The remark on a file whose end is missing."""
UNENDED = "cut off: its last page of Ogg does not end the stream"
"""The remark on an Ogg file whose end is missing, or that a live stream wrote."""
_CHUNK = 1 << 18
_HEADER = 1024
"""Bytes that a file without samples may have."""
_MP3_MARGIN = 8 * 1152
"""Samples of frames that hold none: the table of contents, and what the encoder adds at both ends."""


@dataclass(frozen=True)
class Clip:
    """A recording, or the stretch of it from `start` to `end` in seconds, which is read when it is needed.

    >>> print(Clip(Path("talk.flac")), Clip(Path("talk.flac"), 1.25, 3.0), Clip(Path("talk.flac"), 60.0))
    talk.flac talk.flac:1.25-3.00 talk.flac:60.00-

    Raises DataError for times that are not in order.
    """

    path: Path
    start: float = 0.0
    end: float | None = None
    place: str = field(default="", compare=False, repr=False)
    """The file and line of the table that names the recording, for errors; empty without a table."""

    def __post_init__(self) -> None:
        end = np.inf if self.end is None else self.end
        if not 0 <= self.start < end:
            raise DataError(
                f"{self.path}: a stretch from {self.start:g} s to {end:g} s has no length. Give a start of at least 0 "
                "and a later end, in seconds."
            )

    def __str__(self) -> str:
        if not self.start and self.end is None:
            return str(self.path)
        return f"{self.path}:{self.start:.2f}-{'' if self.end is None else f'{self.end:.2f}'}"


def place_of(thing: object) -> tuple[str, float]:
    """The name of the file that a thing is read from, and where the thing begins in it, in seconds.

    >>> place_of(Clip(Path("talk.flac"), 1.25, 3.0)), place_of("talk.flac")
    (('talk.flac', 1.25), ('talk.flac', 0.0))
    """
    return (str(thing.path), thing.start) if isinstance(thing, Clip) else (str(thing), 0.0)


@dataclass(frozen=True, eq=False)
class Recording:
    """Samples of one channel, from −1 to 1, with their rate in samples per second.

    >>> Recording("tone", np.zeros(12_000, np.float32), 8_000).seconds
    1.5
    """

    name: str
    samples: Float[np.ndarray, " samples"]
    rate: int
    remarks: tuple[str, ...] = ()
    """Notes for the user about this recording: other channels, another rate, clipping, silence."""

    def __post_init__(self) -> None:
        if not len(self.samples):
            raise DataError(f"{self.name} is empty: it has no samples. Leave it out.")
        if not float(np.abs(self.samples).max()) <= LOUDEST:
            raise DataError(
                f"{self.name} has samples that are not numbers, or beyond ±{LOUDEST:g}, where 1 is full scale. Divide "
                "them by the largest value of their format, or leave the recording out."
            )

    def __str__(self) -> str:
        return self.name

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate

    def at(self, rate: int) -> "Recording":
        """This recording with another rate, by soxr's filter of high quality."""
        if rate == self.rate:
            return self
        samples = resampled(self.samples, self.rate, rate)
        samples = samples if len(samples) else self.samples[:1]  # the shortest stretch is one sample
        remark = f"{self.rate:,} samples a second, resampled to {rate:,}"
        return Recording(self.name, samples, rate, (*self.remarks, remark))

    def faster(self, speed: float) -> "Recording":
        """This recording at another speed, with another pitch.

        Reference: Ko et al. 2015, "Audio augmentation for speech recognition", section 3.1.
        """
        return Recording(self.name, resampled(self.samples, speed * self.rate, self.rate), self.rate, self.remarks)


def read_recording(clip: Clip) -> Recording:
    """The samples of a recording or a stretch, at the rate of the file; of several channels the mean.

    Raises DataError, with the name of the file, for a file that is missing, not audio, empty, damaged or too long, and
    for a stretch that begins or ends after the recording; SetupError without the package soundfile.
    """
    with _located(clip):
        return _read(clip)


def recording_of(data: bytes, name: str, *, longest: float = LONGEST) -> Recording:
    """`read_recording` for the content of a file; messages use `name`. One that lasts more than `longest` seconds, or
    has more samples than memory should, is refused before it is decoded.

    >>> tone = io.BytesIO()
    >>> import soundfile
    >>> soundfile.write(tone, np.zeros(12_000), 8_000, format="WAV")
    >>> recording_of(tone.getvalue(), "tone").seconds
    1.5
    """
    return _read(Clip(Path(name)), data, longest)


def _read(clip: Clip, data: bytes | None = None, longest: float = LONGEST) -> Recording:
    with _opened(clip.path, data) as file:
        rate, channels = int(file.samplerate), int(file.channels)
        if data is not None:
            _require_short(clip, int(file.frames), rate, longest)
        first, frames = _stretch(clip, file, None if data is None else len(data))
        file.seek(first) if first else None
        samples = np.empty(frames, np.float32)
        read = 0
        while read < frames:
            chunk = file.read(min(_CHUNK, frames - read), dtype="float32", always_2d=True)
            if not len(chunk):
                break  # the header promises more samples than the file has
            samples[read : read + len(chunk)] = chunk.mean(1)
            read += len(chunk)
    if read < frames and (not read or clip.end is not None):
        raise DataError(f"{clip} is damaged: it ends after {read / rate:.2f} s. Save it again, or leave it out.")
    samples = samples[:read]
    remarks = [f"{channels} channels, whose mean is read"] if channels > 1 else []
    if clip.end is None:
        with io.BytesIO(data) if data is not None else clip.path.open("rb") as content:
            if str(file.format) == "MP3":
                _require_frames(clip.path, content, read, rate)
            if ogg_streams(content) > 1:
                raise DataError(
                    f"{clip.path} has several streams, one after another, and only the first would be read. Save it "
                    "again as WAV or FLAC."
                )
            if read < 0.99 * frames or _lacks_samples(content):  # MP3 knows only about how many
                remarks.append(CUT)
            if not ogg_ends(content):
                remarks.append(UNENDED)
    return Recording(str(clip), samples, rate, (*remarks, *remarks_on(samples)))


def _require_frames(path: Path, content: io.BufferedIOBase, read: int, rate: int) -> None:
    """Raises DataError for an MP3 file that has many more samples than were read, because its header gives fewer."""
    if (mp3_samples(content) or 0) > 1.01 * read + _MP3_MARGIN:
        raise DataError(
            f"{path} has more sound than its header says, as MP3 files of a varying rate without a table of contents "
            f"do, and several in one; {read / rate:.2f} s of it would be read. Save it again as WAV or FLAC."
        )


def rate_of(clip: Clip) -> int:
    """The rate of a recording, in samples per second, by its header. Raises as `read_recording` does."""
    with _located(clip), _opened(clip.path) as file:
        return int(file.samplerate)


def seconds_of(clip: Clip) -> float:
    """The length of a recording or a stretch, by its header. Raises as `read_recording` does."""
    with _located(clip), _opened(clip.path) as file:
        return _stretch(clip, file)[1] / int(file.samplerate)


def remarks_on(samples: Float[np.ndarray, " samples"]) -> tuple[str, ...]:
    """Remarks on the loudness of samples.

    >>> remarks_on(np.zeros(100, np.float32)), remarks_on(np.clip(2 * np.sin(np.arange(1000) / 50), -1, 1))
    (('silence',), ('clipping: samples at full scale',))
    """
    if not len(samples) or float(np.abs(samples).max()) <= SILENT:
        return ("silence",)
    for side in (samples >= FULL, samples <= -FULL):
        places = np.flatnonzero(side)
        if len(places) >= CLIPPED and (places[CLIPPED - 1 :] - places[: 1 - CLIPPED] == CLIPPED - 1).any():
            return ("clipping: samples at full scale",)
    return ()


def resampled(
    samples: Float[np.ndarray, " samples"], old: int | float, new: int | float
) -> Float[np.ndarray, " resampled"]:
    """The same sound with another rate. Raises SetupError without the package soxr.

    >>> tone = np.sin(2 * np.pi * 440 * np.arange(8_000) / 8_000).astype(np.float32)
    >>> twice = resampled(tone, 8_000, 16_000)
    >>> len(twice), bool(np.abs(twice[1000:-1000:2] - tone[500:-500]).max() < 1e-3)
    (16000, True)
    """
    try:
        import soxr  # needed only for recordings
    except ImportError:
        raise SetupError("Resampling of sound needs the package soxr: pip install 'foveate[audio]'") from None
    result: np.ndarray = soxr.resample(np.ascontiguousarray(samples, np.float32), old, new, quality="HQ")
    return result


@contextlib.contextmanager
def _located(clip: Clip) -> Iterator[None]:
    """Puts the place of a clip in a table before errors."""
    try:
        yield
    except DataError as error:
        if not clip.place:
            raise
        raise DataError(f"{clip.place}: {error}") from None


def _lacks_samples(file: io.BufferedIOBase) -> bool:
    """Whether a file ends before the end of its samples, by its header. libsndfile reads what is there, and says
    nothing; it refuses FLAC and CAF that end too early.
    """
    end = end_of_samples(file)
    return end is not None and end > file.seek(0, 2)


def _require_short(clip: Clip, samples: int, rate: int, longest: float) -> None:
    """Raises DataError for a recording that is too long for memory."""
    if samples > longest * rate:
        raise DataError(f"{clip} lasts {samples / rate:,.1f} seconds, and at most {longest:,g} are read. Cut it.")
    if samples > MOST_SAMPLES:
        raise DataError(
            f"{clip} has {samples:,} samples, and at most {MOST_SAMPLES:,} are read. Cut it, or resample it."
        )


@contextlib.contextmanager
def _opened(path: Path, data: bytes | None = None) -> Iterator[Any]:
    """An open file of sound, or its content, whose header is sound. Errors of libsndfile become sentences."""
    try:
        import soundfile  # needed only for recordings
    except (ImportError, OSError):
        raise SetupError("Recordings need the package soundfile: pip install 'foveate[audio]'") from None
    if data is None and not Path(path).is_file():
        raise DataError(f"{path} is a folder, not a recording." if Path(path).is_dir() else missing_file(Path(path)))
    if data is None and Path(path).suffix.lower() == ".raw":
        raise DataError(f"{path} has raw samples, and nothing says their rate. Save it again as WAV or FLAC.")
    try:
        with soundfile.SoundFile(str(path) if data is None else io.BytesIO(data)) as file:
            if not (RATES[0] <= file.samplerate <= RATES[1] and 1 <= file.channels <= CHANNELS):
                raise DataError(
                    f"{path} is damaged: its header states {file.samplerate:,} samples a second of {file.channels:,} "
                    "channels. Save it again, or leave it out."
                )
            yield file
    except soundfile.LibsndfileError:
        if not (Path(path).stat().st_size if data is None else data):
            raise DataError(f"{path} is empty. Leave it out.") from None
        kinds = ", ".join(sorted(SUFFIXES))
        raise DataError(
            f"{path} is not a recording that can be read, or is damaged ({kinds}). Save it again as WAV or FLAC, or "
            "leave it out."
        ) from None


def _stretch(clip: Clip, file: Any, size: int | None = None) -> tuple[int, int]:
    """The first sample of a clip and the number of its samples. By its header, the file, of `size` bytes, has them."""
    rate, total = int(file.samplerate), int(file.frames)
    if total <= 0:
        size = clip.path.stat().st_size if size is None else size
        if size > _HEADER:
            raise DataError(
                f"{clip.path} has no samples by its header, although it has {size:,} bytes: its recorder was stopped "
                "before it could write their number. Send it on standard input, which is read to its end, or save it "
                "again."
            )
        raise DataError(f"{clip.path} is empty: it has no samples. Leave it out.")
    first = round(clip.start * rate)
    last = total if clip.end is None else round(clip.end * rate)
    if first >= total or last > total + rate * _ROUNDING:
        raise DataError(f"{clip} lies outside the recording, which lasts {total / rate:.2f} s. Correct the times.")
    count = min(last, total) - first
    if count > LONGEST * rate:
        raise DataError(
            f"{clip} lasts {count / rate / 3600:.1f} hours, and at most {LONGEST / 3600:g} are read. Cut it into "
            "recordings, or give a table with the columns path, start, end and text."
        )
    if count < 1:
        raise DataError(f"{clip} has no samples: it is shorter than one. Leave it out.")
    return first, count


_ROUNDING = 0.05
"""The largest time after a recording's end, in seconds, that rounded times explain."""
