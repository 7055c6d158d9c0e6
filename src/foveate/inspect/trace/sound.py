"""A sound in a trace: its outline, and the samples themselves as FLAC or WAV if the viewer shall play it."""

import base64
import importlib
import io
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int16
from torch import Tensor

from foveate.errors import UsageError

LONGEST = 4_000_000
"""The limit on the size of the samples of a sound in a trace, in bytes."""
OUTLINE = 2000
"""The number of pieces of a sound, each with its lowest and highest sample."""
FULL = 127
"""The value of the sample 1 in an outline."""
_LOUDEST = 32767
_LEEWAY = 0.1
_FLAC, _WAVE = b"fLaC", b"WAVE"


@dataclass(frozen=True)
class Sound:
    """A waveform: the lowest and highest sample of equal pieces, in 127ths of full scale, and what a player needs.

    With `seconds`, a sound is an outline that can be seen; with `rate`, it can also be heard.

    >>> Sound.of([0.0, 1.0, -0.5, 0.25], seconds=2.0)
    Sound(low=(0, 127, -64, 32), high=(0, 127, -64, 32), seconds=2.0)
    >>> heard = Sound.of([0.0, 1.0, -0.5, 0.25], rate=8000)
    >>> heard.seconds, heard.media in ("audio/flac", "audio/wav")
    (0.0005, True)
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    seconds: float
    audio: bytes | None = field(default=None, repr=False)
    """The samples as a FLAC or WAV file of the same length; None if the sound cannot be played."""

    def __post_init__(self) -> None:
        pairs = zip(self.low, self.high, strict=False)
        whole = len(self.low) == len(self.high) <= OUTLINE and all(-FULL <= low <= high <= FULL for low, high in pairs)
        if not whole or not 0 < self.seconds < float("inf"):
            raise UsageError(
                f"The outline of a sound needs as many lowest as highest samples, {OUTLINE} at most, each from "
                f"−{FULL} to {FULL}, and a length in seconds. `Sound.of(samples, seconds=…)` makes one."
            )
        if self.audio is not None:
            _require_audio(self.audio, self.seconds)

    @classmethod
    def of(
        cls,
        samples: "Float[np.ndarray, ' samples'] | Float[Tensor, ' samples'] | list[float]",
        *,
        seconds: float | None = None,
        rate: int | None = None,
    ) -> "Sound":
        """A sound from samples between −1 and 1 of one channel; beyond these, they are clipped.

        With `rate` (samples a second) the trace also contains the samples, in 16 bits: as FLAC if the package soundfile
        is installed, otherwise as WAV. With `seconds` it contains the outline only. Raises UsageError for samples that
        take more than 4 MB.
        """
        if (seconds is None) == (rate is None) or (rate is not None and not rate > 0):
            raise UsageError(
                f"Sound.of needs either `rate` in samples a second (a sound to play) or `seconds` (only its outline); "
                f"got rate={rate} and seconds={seconds}."
            )
        wave = np.asarray(samples, dtype=np.float32)
        if wave.ndim != 1 or not wave.size:
            raise UsageError(f"A sound is a line of samples, and this has the shape {wave.shape}: choose one channel.")
        wave = np.clip(np.nan_to_num(wave), -1, 1)
        scaled = np.rint(wave * FULL).astype(int)
        starts = np.unique(np.linspace(0, wave.size, min(OUTLINE, wave.size), endpoint=False).astype(int))
        low, high = np.minimum.reduceat(scaled, starts), np.maximum.reduceat(scaled, starts)
        length = wave.size / rate if rate is not None else float(seconds or 0)
        audio = None if rate is None else _encoded(np.rint(wave * _LOUDEST).astype(np.int16), rate)
        return cls(tuple(low.tolist()), tuple(high.tolist()), length, audio)

    @property
    def media(self) -> str | None:
        """The media type of the samples."""
        if self.audio is None:
            return None
        return "audio/flac" if self.audio.startswith(_FLAC) else "audio/wav"

    def header(self) -> dict[str, Any]:
        """Plain data for JSON. A sound that cannot be played has no field `audio`."""
        plain: dict[str, Any] = {"low": list(self.low), "high": list(self.high), "seconds": self.seconds}
        if self.audio is not None:
            plain["audio"] = {"media": self.media, "data": base64.b64encode(self.audio).decode("ascii")}
        return plain

    @classmethod
    def read(cls, header: Mapping[str, Any]) -> "Sound":
        """Read plain data. Raises ValueError for samples that are damaged."""
        audio = header.get("audio")
        data = None if audio is None else base64.b64decode(audio["data"], validate=True)
        return cls(tuple(map(int, header["low"])), tuple(map(int, header["high"])), float(header["seconds"]), data)


def _require_audio(audio: bytes, seconds: float) -> None:
    """Raise UsageError for audio of another format or length, or of too many bytes."""
    length = _seconds(audio)
    if length is None:
        raise UsageError(
            "The samples of the sound are not a complete FLAC or WAV file. `Sound.of(samples, rate=…)` makes one."
        )
    if abs(length - seconds) > _LEEWAY:
        raise UsageError(f"The samples of the sound take {length:.2f} seconds, but its outline {seconds:.2f}.")
    if len(audio) > LONGEST:
        raise UsageError(
            f"The {length:.0f} seconds of sound take {len(audio) / 1e6:.1f} MB; a trace contains at most "
            f"{LONGEST / 1e6:.0f}. Show a shorter stretch of the recording, give samples of a lower rate, or give "
            "`seconds` instead of `rate`: then the trace contains the outline, which cannot be played."
        )


def _seconds(audio: bytes) -> float | None:
    """The length according to the file; None for other formats, and for files without a length."""
    if audio.startswith(_FLAC) and len(audio) > 42:
        facts = int.from_bytes(audio[18:26], "big")
        rate, count = facts >> 44, facts & (1 << 36) - 1
        return count / rate if rate and count else None
    if audio.startswith(b"RIFF") and audio[8:16] == _WAVE + b"fmt " and audio[36:40] == b"data":
        width, size = struct.unpack_from("<I", audio, 28)[0], struct.unpack_from("<I", audio, 40)[0]
        return size / width if width and len(audio) == 44 + size else None
    return None


def _encoded(samples: Int16[np.ndarray, " samples"], rate: int) -> bytes:
    try:
        soundfile = importlib.import_module("soundfile")
    except (ImportError, OSError):  # the package, or the library that it loads, is missing
        return _wave_file(samples, rate)
    written = io.BytesIO()
    soundfile.write(written, samples, rate, format="FLAC", subtype="PCM_16")
    return written.getvalue()


def _wave_file(samples: Int16[np.ndarray, " samples"], rate: int) -> bytes:
    """A WAV file of one channel in 16 bits, with the shortest header."""
    data = samples.astype("<i2").tobytes()
    facts = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16)
    whole = struct.pack("<4sI4s", b"RIFF", 36 + len(data), _WAVE)
    return whole + facts + struct.pack("<4sI", b"data", len(data)) + data
