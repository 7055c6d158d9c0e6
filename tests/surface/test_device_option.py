"""`--device` says where a run trains; a device that is not there is refused before anything is read."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from foveate.storage.manifest import file_digest
from foveate.storage.run import read_run

SET, MORE = "--set", ("--set", "train.steps=124", "--quiet")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


@pytest.mark.parametrize("chosen", [("--device", "cuda"), (SET, 'train.device="cuda:1"')])
def test_a_gpu_that_is_not_there_is_refused_before_a_file_is_read(
    chosen: tuple[str, ...], foveate: Any, tmp_path: Path
) -> None:
    said = foveate("train", "translate", "--source", tmp_path / "missing.tsv", "--out", tmp_path / "run", *chosen)
    assert said.code == 2
    assert f"train.device is {chosen[-1].partition('=')[2].strip(chr(34)) or 'cuda'}, but" in said.err
    assert "missing.tsv" not in said.err
    assert not (tmp_path / "run").exists()


def test_another_name_and_two_choices_are_refused(foveate: Any, recipe: tuple[str, ...], tmp_path: Path) -> None:
    said = foveate(*recipe, "--out", tmp_path / "run", "--device", "gpu")
    assert (said.code, "must be cpu, cuda, a certain GPU such as cuda:1, or auto, got 'gpu'" in said.err) == (2, True)
    said = foveate(*recipe, "--out", tmp_path / "run", "--device", "cpu", SET, "train.device=auto")
    assert (said.code, "--device cpu and --set train.device=auto both say where to train" in said.err) == (2, True)


def test_auto_without_a_gpu_is_the_cpu_to_the_bit(
    foveate: Any, recipe: tuple[str, ...], trained: Path, tmp_path: Path
) -> None:
    said = foveate(*recipe, "--out", tmp_path / "run", "--device", "auto")
    assert said.code == 0, said.err
    assert "Trains on the CPU." in said.err
    name = "model.safetensors"
    assert file_digest(tmp_path / "run" / name) == file_digest(trained / name)


def test_a_run_from_a_gpu_goes_on_without_one_when_it_is_told_to(foveate: Any, run: Path) -> None:
    path = run / "config.json"
    saved = json.loads(path.read_text())
    saved["config"]["train"]["device"] = "cuda"
    path.write_text(json.dumps(saved))
    said = foveate("resume", run, *MORE)
    assert (said.code, "train on the CPU, with train.device = cpu" in said.err) == (2, True), said.err
    said = foveate("resume", run, "--device", "cpu", *MORE)
    assert said.code == 0, said.err
    assert read_run(run).changes[-1]["train.device"] == "cuda → cpu"


@pytest.mark.parametrize("fast", [True, False])
def test_a_processor_without_products_in_bfloat16_is_told_of(
    fast: bool, foveate: Any, recipe: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With AVX2 alone these products take five to eight times as long as those of float32."""
    monkeypatch.setattr("foveate.machine.multiplies_bfloat16", lambda: fast)
    short = (SET, "train.steps=2", SET, "train.precision=bfloat16")
    said = foveate(*recipe, "--out", tmp_path / "run", *short)
    assert said.code == 0, said.err
    assert ("--set train.precision=float32 is faster here" in said.err) is not fast
