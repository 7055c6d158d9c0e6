"""ViT, CNN and ResNet on the command line: trained, resumed with the same bits, looked at, planned, exported."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from safetensors.torch import load_file

from foveate.data.batch import Batch
from foveate.data.synthetic import SHAPES, shapes
from foveate.inspect import read_trace
from foveate.inspect.figure.pixel import encode
from foveate.tasks.classify.use import RowClassifier

QUICK = ("--no-tune", "--threads", "1", "--quiet", "--set", "train.schedule=constant")
FEW = ("--set", "train.steps=4", "--set", "train.save_every=2", "--set", "train.validate_every=2")
SMALL = ("--set", "model.encoder.num_layers=1", "--set", "model.encoder.block.model_dim=16")
CHOICES = {
    "vit": ("--set", "model.encoder=vit", "--set", "model.pooling=first", *SMALL),
    "picture_cnn": ("--set", "model.encoder=picture_cnn", "--set", "model.encoder.channels=[4, 6]"),
    "resnet": (
        *("--set", "model.encoder=resnet", "--set", "model.encoder.channels=[4, 6]"),
        *("--set", "model.encoder.norm=batch", "--set", "model.encoder.blocks=1"),
    ),
}


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Grey pictures of two shapes, in a folder for each."""
    grey, folder = tuple((level, level, level) for level in range(256)), tmp_path / "pictures"
    for number, example in enumerate(shapes(120, seed=1, side=12, noise=0.05)):
        name = SHAPES[example.label]
        if name in ("disc", "frame"):
            (folder / name).mkdir(parents=True, exist_ok=True)
            pixels = (np.array(example.ids) - 1).astype(np.uint8).reshape(12, 12)
            (folder / name / f"{number:03}.png").write_bytes(encode(pixels, grey))
    return folder


@pytest.mark.parametrize("kind", CHOICES)
def test_an_encoder_of_pictures_is_trained_resumed_looked_at_planned_and_exported(
    kind: str, pictures: Path, tmp_path: Path, foveate: Any
) -> None:
    start = ("train", "classify", "--data", str(pictures), *QUICK, *CHOICES[kind])
    whole, part = tmp_path / "whole", tmp_path / "part"
    trained = foveate(*start, *FEW, "--out", str(whole))
    assert trained.code == 0, trained.err
    assert json.loads((whole / "config.json").read_text())["config"]["model"]["encoder"]["kind"] == kind
    assert foveate(*start, *FEW, "--set", "train.steps=2", "--out", str(part)).code == 0
    assert foveate("resume", str(part), "--set", "train.steps=4", *QUICK[:4]).code == 0
    final = [load_file(folder / "checkpoints/step-00000004/model.safetensors") for folder in (whole, part)]
    assert final[0].keys() == final[1].keys()
    assert all(torch.equal(final[0][name], final[1][name]) for name in final[0])

    planned = foveate("plan", "classify", "--data", str(pictures), *QUICK[:3], *CHOICES[kind])
    assert planned.code == 0, planned.err
    one = next(iter(sorted(pictures.rglob("*.png"))))
    drawn = foveate("look", str(whole), str(one), "--trace", str(tmp_path / "kept"))
    assert drawn.code == 0, drawn.err
    track = read_trace(tmp_path / "kept").tracks["source"]
    classifier = RowClassifier.load(whole)
    grid = classifier.model.encoder.grid
    assert track.grid == grid
    assert track.picture is not None
    assert len(track.labels) == grid[0] * grid[1] + (kind == "vit")
    assert (track.labels[0] == "[class]") == (kind == "vit")

    said = foveate("look", str(whole), str(one))
    assert said.code == 0, said.err
    assert ("rollout of 1 layer " in said.out) == (kind == "vit")
    if kind == "vit":
        layer = ("--layer", "0", "--head", "1")
        chosen = foveate("look", str(whole), str(one), *layer)
        assert chosen.out.startswith("[class] in encoder.blocks.0.attention, head 1  [class] 0.")
        for ending, begin in {".svg": b"<svg", ".pdf": b"%PDF", ".png": b"\x89PNG", ".txt": b"[class] in"}.items():
            path = tmp_path / f"view{ending}"
            assert foveate("look", str(tmp_path / "kept"), *layer, "--out", str(path)).code == 0
            assert path.read_bytes().startswith(begin)
        assert "<image " in (tmp_path / "view.svg").read_text()
        assert (tmp_path / "view.txt").read_text() == chosen.out

    exported = foveate("export", str(whole), str(tmp_path / "onnx"), "--to", "onnx")
    assert exported.code == 0, exported.err
    batch = Batch.of([classifier.rows.row(one)])
    pixels = classifier.model.encoder.patches.picture(batch.values).permute(0, 2, 3, 1).contiguous()
    session = onnxruntime.InferenceSession((tmp_path / "onnx/model.onnx").read_bytes())
    (logits, *_) = session.run(["logits"], {"pixels": pixels.numpy()})
    with torch.no_grad():
        np.testing.assert_allclose(logits, classifier.model(batch).numpy(), atol=1e-5)
