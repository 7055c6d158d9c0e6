"""The script about the amount of data trains both models for the same time, and keeps their figures."""

import gzip
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "examples/pictures"


@pytest.fixture
def amount(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = importlib.util.spec_from_file_location("amount", FOLDER / "amount.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    for name in ("measure", "figures"):
        sys.modules.pop(name, None)


@pytest.fixture
def fashion(tmp_path: Path) -> Path:
    """IDX files of pictures whose brightness is their label."""
    folder, generator = tmp_path / "idx", np.random.default_rng(0)
    folder.mkdir()
    for part, count in (("train", 80), ("t10k", 30)):
        labels = generator.integers(0, 3, count).astype(np.uint8)
        pictures = (80 * labels[:, None, None] + generator.integers(0, 40, (count, 28, 28))).astype(np.uint8)
        sizes = np.array([2051, count, 28, 28], ">u4").tobytes()
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(sizes + pictures.tobytes()))
        sizes = np.array([2049, count], ">u4").tobytes()
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(sizes + labels.tobytes()))
    return folder


def test_both_models_are_measured_for_each_amount(
    amount: ModuleType, fashion: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results.json"
    command = [str(tmp_path / "out"), "--pictures", str(fashion), "--results", str(results), "--seconds", "0.5"]
    assert amount.main([*command, "--amount", "32"]) == 0
    table = json.loads(results.read_text())["amount of pictures"]
    assert list(table) == ["ViT, 32, 0.5 s", "CNN, 32, 0.5 s"]
    for row in table.values():
        assert 0 <= row["0"]["accuracy"] <= 100
        assert row["0"]["steps"] >= 1
    assert "| CNN, 32, 0.5 s |" in capfd.readouterr().out


def test_no_picture_is_in_two_parts(amount: ModuleType, fashion: Path, tmp_path: Path) -> None:
    amount.main([str(tmp_path), "--pictures", str(fashion), "--only-data", "--amount", "60", "--amount", "20"])
    parts = {name: np.load(tmp_path / f"{name}.npz")["x"] for name in ("60", "20", "valid", "test")}
    assert {name: len(part) for name, part in parts.items()} == {"60": 60, "20": 20, "valid": 20, "test": 30}
    assert np.array_equal(parts["60"][:20], parts["20"])
    whole = [picture.tobytes() for name in ("60", "valid", "test") for picture in parts[name]]
    assert len(set(whole)) == len(whole)
    with pytest.raises(SystemExit, match="has 60 pictures beside those for validation: choose a smaller --amount"):
        amount.main([str(tmp_path), "--pictures", str(fashion), "--only-data", "--amount", "61"])
