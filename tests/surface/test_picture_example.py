"""The scripts that make data of pictures and train with them, on made-up photographs."""

import gzip
import importlib.util
import itertools
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from foveate.data.image_file import read_pixels

FOLDER = Path(__file__).parents[2] / "examples" / "pictures"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"pictures_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def archive(folder: Path, part: str, count: int) -> None:
    """Made-up photographs: a square of 28 x 28 pixels whose brightness is 100 + its label."""
    labels = np.arange(count, dtype=np.uint8) % 10
    images = np.full((count, 28, 28), 100, np.uint8) + labels[:, None, None]
    sizes = np.array(images.shape, ">u4").tobytes()
    (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes([0, 0, 8, 3]) + sizes + images.tobytes()))
    (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(
        gzip.compress(bytes([0, 0, 8, 1]) + sizes[:4] + labels.tobytes())
    )


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    folder = tmp_path / "photographs"
    folder.mkdir()
    archive(folder, "train", 60)
    archive(folder, "t10k", 20)
    return folder


def test_scenes_have_the_articles_where_captions_and_boxes_say(photographs: Path, tmp_path: Path) -> None:
    scenes = load("scenes")
    out = tmp_path / "scenes"
    sizes = ["--train", "30", "--valid", "4", "--test", "4"]

    scenes.main([str(out), "--photographs", str(photographs), *sizes, "--both"])

    boxes: dict[str, dict[str, list[int]]] = {}
    for line in (out / "boxes.tsv").read_text().splitlines()[1:]:
        path, word, *box = line.split("\t")
        boxes.setdefault(path, {})[word] = [int(number) for number in box]
    captions = [line.split("\t") for line in (out / "train.tsv").read_text().splitlines()]
    assert len({path for path, _ in captions}) == 30
    assert any(" and " not in caption and "above" in caption for _, caption in captions)
    for path, caption in captions:
        pixels = read_pixels(out / path)
        assert pixels.shape == (64, 64, 3)
        words = [word for word in caption.split() if word in scenes.KINDS]
        assert sorted(words) == sorted(boxes[path])
        for word, (left, top, right, bottom) in boxes[path].items():
            assert (pixels[top:bottom, left:right] == 100 + scenes.KINDS.index(word)).all()
        for first, second in itertools.pairwise(words):
            tokens = caption.split()
            relation = " ".join(tokens[tokens.index(first) + 1 : tokens.index(second)]).removesuffix(" a")
            (x, y), (u, v) = (boxes[path][word][:2] for word in (first, second))
            assert {"left of": x < u, "right of": x > u, "above": y < v, "below": y > v}[relation]


def test_the_same_seed_makes_the_same_scenes_and_missing_photographs_name_their_package(
    photographs: Path, tmp_path: Path
) -> None:
    scenes = load("scenes")
    source = scenes.read(photographs, "train")

    first, again = (list(scenes.scenes(*source, 5, seed=(1, 0))) for _ in range(2))

    for one, other in zip(first, again, strict=True):
        assert (one.pixels == other.pixels).all()
        assert one[1:] == other[1:]
    assert any(
        (one.pixels != other.pixels).any()
        for one, other in zip(first, scenes.scenes(*source, 5, seed=(2, 0)), strict=True)
    )
    with pytest.raises(SystemExit, match="apt install dataset-fashion-mnist"):
        scenes.read(tmp_path, "train")


def test_captioners_are_compared_by_what_they_name_and_where_they_look(
    photographs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out, results = tmp_path / "scenes", tmp_path / "results.json"
    sizes = ["--train", "40", "--valid", "4", "--test", "6"]
    load("scenes").main([str(out), "--photographs", str(photographs), *sizes])
    captions = load("captions")
    variants = [text for name in ("soft", "hard", "mean") for text in ("--variant", name)]
    command = [str(out), "--out", str(tmp_path / "runs"), "--seconds", "0.4", "--results", str(results)]
    assert captions.main([*command, *variants]) == 0
    table = json.loads(results.read_text())["scenes, 0.4 s"]
    assert list(table) == ["soft", "hard", "mean"]
    assert all(0 <= row["0"]["nouns right"] <= 100 for row in table.values())
    assert {"pointing", "mass", "misread", "misplaced"} <= set(table["soft"]["0"])
    assert "nouns right, drawn" in table["hard"]["0"]
    assert "pointing" not in table["mean"]["0"]


def test_looks_are_counted_within_the_boxes_of_articles() -> None:
    captions = load("captions")
    coat, bag = captions.Article("coat", 0, 0, 28, 28), captions.Article("bag", 34, 2, 62, 30)
    look = torch.zeros(5, 4, 4)  # words, rows, columns of places of 16 x 16 pixels
    look[1, 0, 0], look[1, 3, 3] = 0.75, 0.25  # coat, within its box but for a quarter
    look[4, 0, 1] = 1.0  # the last noun looks at the coat
    texts = ["a coat above a bag", "a coat above a dress", "a coat"]
    figures = captions.glances(texts, [[coat, bag]] * 3, [look, look, look])
    assert figures == {
        "nouns right": pytest.approx(100 * 4 / 6),
        "pointing": 75,
        "mass": pytest.approx(100 * 3 * 0.75 / 4),
        "misread": 0,
        "misplaced": 100,
    }
    assert captions.glances(texts, [[coat, bag]] * 3, None) == {"nouns right": pytest.approx(100 * 4 / 6)}
