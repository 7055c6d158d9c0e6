"""Small runs that read recordings and pictures, which are trained in seconds and have hardly learnt anything."""

import io
from pathlib import Path

import numpy as np
import soundfile
from tests.surface.conftest import call

from foveate.data.synthetic import tones

RATE = 8_000
QUICK = ("--no-tune", "--threads", "1", "--quiet", "--set", "train.steps=2", "--set", "train.validate_every=2")
SMALL = (
    *("--set", "model.encoder.num_layers=1", "--set", "model.encoder.block.model_dim=32"),
    *("--set", "model.encoder.block.feedforward_dim=64", "--set", "model.subsampling.hidden_dim=32"),
    *("--set", "model.subsampling.maps=4", "--set", "data.max_tokens=1500", "--set", "data.max_length=800"),
)


def recogniser(folder: Path) -> Path:
    """A run with CTC, beside the recordings `00.wav` to `11.wav` that it was trained on."""
    lines = []
    for number, one in enumerate(tones(12, seed=0, rate=RATE)):
        soundfile.write(folder / f"{number:02}.wav", one.samples, RATE)
        lines.append(f"{number:02}.wav\t{one.text}\n")
    (folder / "clips.tsv").write_text("".join(lines))
    said = call("train", "transcribe", "--data", folder / "clips.tsv", "--out", folder / "run", *QUICK, *SMALL)
    assert said.code == 0, said.err
    return folder / "run"


def sense_runs(folder: Path) -> tuple[str, ...]:
    """Such runs, as arguments of `foveate serve`."""
    return (f"asr={recogniser(_inside(folder, 'asr'))}",)


def _inside(folder: Path, name: str) -> Path:
    (folder / name).mkdir(parents=True)
    return folder / name


def sound(seconds: float, kind: str = "WAV", rate: int = RATE) -> bytes:
    """A tone as a file."""
    file = io.BytesIO()
    samples = 0.3 * np.sin(2 * np.pi * 440 * np.arange(round(seconds * rate)) / rate)
    soundfile.write(file, samples.astype(np.float32), rate, format=kind)
    return file.getvalue()
