"""Sounds as the contents of files, in the formats that programs ask for."""

import io

import numpy as np
from jaxtyping import Float

from foveate.data.audio_file import resampled
from foveate.data.waveform import sixteen_bits, wav
from foveate.errors import SetupError

FORMATS = ("wav", "flac", "mp3", "opus", "pcm")
PCM_RATE = 24_000
"""The samples per second of `pcm`, which has no header that could say so."""
_ENCODED = {"flac": ("FLAC", "PCM_16"), "mp3": ("MP3", "MPEG_LAYER_III"), "opus": ("OGG", "OPUS")}
_RATES = {
    "mp3": (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000),
    "opus": (8_000, 12_000, 16_000, 24_000, 48_000),
    "pcm": (PCM_RATE,),
}
"""The samples per second of the formats that do not have any number of them."""


def sound_file(samples: Float[np.ndarray, " samples"], rate: int, form: str) -> bytes:
    """Samples from −1 to 1 as the content of a file with one channel, in one of `FORMATS`; `pcm` are 24,000 numbers of
    16 bits a second, the low byte first, without a header. Sounds of another rate than a format has are resampled to
    the next higher one.

    Raises ValueError for an unknown format, SetupError without the packages soundfile and soxr, which `wav` does not
    need.

    >>> sound_file(np.zeros(240), 24_000, "pcm") == bytes(480)
    True
    """
    if form not in FORMATS:
        raise ValueError(f"Formats of sounds are {', '.join(FORMATS)}, got {form!r}.")
    if form == "wav":
        return wav(samples, rate)
    samples, rate = _at_a_rate_of(samples, rate, form)
    if form == "pcm":
        return sixteen_bits(samples)
    try:
        import soundfile  # needed only for sounds in these formats
    except (ImportError, OSError):
        raise SetupError(f"Sounds as {form} need the package soundfile: pip install 'foveate[audio]'") from None
    file, (kind, subtype) = io.BytesIO(), _ENCODED[form]
    soundfile.write(file, np.clip(samples, -1, 1), rate, format=kind, subtype=subtype)
    return file.getvalue()


def _at_a_rate_of(
    samples: Float[np.ndarray, " samples"], rate: int, form: str
) -> tuple[Float[np.ndarray, " resampled"], int]:
    known = _RATES.get(form, (rate,))
    if rate in known:
        return samples, rate
    chosen = next((each for each in known if each > rate), known[-1])
    return resampled(samples, rate, chosen), chosen
