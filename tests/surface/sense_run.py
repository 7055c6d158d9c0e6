"""Small runs that read recordings, pictures, vectors, molecules or graphs, or speak: trained for seconds, they know
little.
"""

import io
from pathlib import Path

import numpy as np
import soundfile
from tests.surface.conftest import call

from foveate.data.synthetic import tones
from foveate.inspect.figure.pixel import photograph

RATE = 8_000
QUICK = ("--no-tune", "--threads", "1", "--quiet", "--set", "train.steps=2", "--set", "train.validate_every=2")
SMALL = (
    *("--set", "model.encoder.num_layers=1", "--set", "model.encoder.block.model_dim=32"),
    *("--set", "model.encoder.block.feedforward_dim=64", "--set", "model.subsampling.hidden_dim=32"),
    *("--set", "model.subsampling.maps=4", "--set", "data.max_tokens=1500", "--set", "data.max_length=800"),
)


def recogniser(folder: Path) -> Path:
    """A run with CTC, beside the recordings `00.wav` to `11.wav` that it was trained on."""
    return trained("transcribe", _recordings(folder), *SMALL)


def captioner(folder: Path) -> Path:
    """A run that describes the pictures `00.png` to `11.png` beside it."""
    small = ("--set", "reader.patch=4", "--set", "model.encoder.channels=[8,8]", "--set", "data.max_tokens=200")
    return trained("caption", _pictures(folder), *small)


def picture_classifier(folder: Path) -> Path:
    """A run that labels the pictures `00.png` to `11.png` beside it."""
    return trained("classify", _pictures(folder))


def voice(folder: Path) -> Path:
    """A run that speaks at most 300 frames, beside its recordings."""
    few = ("--set", "model.hidden_dim=16", "--set", "model.embedding_dim=8", "--set", "data.max_length=300")
    return trained("speak", _recordings(folder), *few)


def molecule_predictor(folder: Path) -> Path:
    """A run that predicts the solubility of molecules of at most 20 atoms by attention."""
    lines = [f"{'C' * length}O,{length / 2}\n" for length in range(1, 13)]
    (folder / "table.csv").write_text("smiles,solubility\n" + "".join(lines))
    small = ("--set", "model.readout=attention", "--set", "data.max_atoms=20")
    return trained("molecule", folder / "table.csv", *small)


def node_classifier(folder: Path) -> Path:
    """A run over a ring of the nodes n1 to n399 of two classes, and the hub n0, which n1 to n320 see."""
    noise = np.random.default_rng(0)
    rows = [f"n{number}\t{('sea', 'land')[number % 2]}\t{noise.normal():.3f}\n" for number in range(400)]
    (folder / "nodes.tsv").write_text("".join(["name\tlabel\theight\n", *rows]))
    edges = [(number, number % 399 + 1) for number in range(1, 400)] + [(0, number) for number in range(1, 321)]
    (folder / "edges.tsv").write_text("".join(f"n{one}\tn{other}\n" for one, other in edges))
    small = ("--set", "model.num_heads=2", "--set", "model.head_dim=4", "--nodes", str(folder / "nodes.tsv"))
    return trained("node", folder / "edges.tsv", *small, option="--edges")


def vector_classifier(folder: Path) -> Path:
    """A run that labels sequences of vectors of 3 numbers."""
    noise = np.random.default_rng(0)
    inputs = noise.normal(size=(24, 5, 3)).astype(np.float32)
    names = np.where(inputs[:, :, 0].mean(1) > 0, "up", "down")
    np.savez(folder / "data.npz", inputs=inputs, labels=names)
    return trained("classify", folder / "data.npz")


def vector_tagger(folder: Path) -> Path:
    """A run that labels each vector of 3 numbers, beside the arrays `00.npy` to `11.npy`."""
    noise = np.random.default_rng(0)
    for number in range(12):
        vectors = noise.normal(size=(5 + number % 4, 3))
        np.save(folder / f"{number:02}.npy", vectors)
        (folder / f"{number:02}.txt").write_text("".join("up\n" if one[0] > 0 else "down\n" for one in vectors))
    (folder / "data.tsv").write_text("".join(f"{number:02}.npy\t{number:02}.txt\n" for number in range(12)))
    return trained("tag", folder / "data.tsv")


def recording_tagger(folder: Path) -> Path:
    """A run that labels the tones of the recordings `00.wav` to `11.wav` beside it."""
    for number, one in enumerate(tones(12, seed=0, rate=RATE)):
        soundfile.write(folder / f"{number:02}.wav", one.samples, RATE)
        end = len(one.samples) / RATE
        (folder / f"{number:02}.txt").write_text(f"0.0\t{end / 2}\tlow\n{end / 2}\t{end}\thigh\n")
    (folder / "data.tsv").write_text("".join(f"{number:02}.wav\t{number:02}.txt\n" for number in range(12)))
    return trained("tag", folder / "data.tsv")


def trained(task: str, data: Path, *settings: str, option: str = "--data") -> Path:
    """A run in the folder of its data."""
    run = data.parent / "run"
    said = call("train", task, option, data, "--out", run, *QUICK, *settings)
    assert said.code == 0, said.err
    return run


def _recordings(folder: Path) -> Path:
    """A table of recordings of tones."""
    lines = []
    for number, one in enumerate(tones(12, seed=0, rate=RATE)):
        soundfile.write(folder / f"{number:02}.wav", one.samples, RATE)
        lines.append(f"{number:02}.wav\t{one.text}\n")
    (folder / "clips.tsv").write_text("".join(lines))
    return folder / "clips.tsv"


def _pictures(folder: Path) -> Path:
    """A table of pictures of 16 × 16 pixels, dark and light ones."""
    lines = []
    for number in range(12):
        shade = ("dark", "light")[number % 2]
        (folder / f"{number:02}.png").write_bytes(picture(16, 90 + 130 * (number % 2), seed=number))
        lines.append(f"{number:02}.png\ta {shade} square\n")
    (folder / "pictures.tsv").write_text("".join(lines))
    return folder / "pictures.tsv"


def picture(side: int, shade: int = 200, *, seed: int = 0) -> bytes:
    """A square of noise of so much light as a PNG."""
    noise = np.random.default_rng(seed).integers(0, 30, (side, side, 3))
    return photograph((noise + shade).astype(np.uint8))


def sense_runs(folder: Path) -> tuple[str, ...]:
    """Such runs, as arguments of `foveate serve`."""
    runs = {
        "asr": recogniser,
        "pictures": picture_classifier,
        "captions": captioner,
        "voice": voice,
        "solubility": molecule_predictor,
        "places": node_classifier,
        "steps": vector_tagger,
    }
    return tuple(f"{name}={run(_inside(folder, name))}" for name, run in runs.items())


def _inside(folder: Path, name: str) -> Path:
    (folder / name).mkdir(parents=True)
    return folder / name


def sound(seconds: float, kind: str = "WAV", rate: int = RATE) -> bytes:
    """A tone as a file."""
    file = io.BytesIO()
    samples = 0.3 * np.sin(2 * np.pi * 440 * np.arange(round(seconds * rate)) / rate)
    soundfile.write(file, samples.astype(np.float32), rate, format=kind)
    return file.getvalue()
