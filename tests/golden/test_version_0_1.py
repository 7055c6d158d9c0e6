"""Run folders and traces that version 0.1.0 wrote open, answer as they answered, and train on as they trained."""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

sys.path.insert(0, str(Path(__file__).parent / "version_0_1"))
import behaviour

from foveate.inspect import read_trace, write_trace
from foveate.inspect.tile.code import ONE, SMALLEST, UNKNOWN
from foveate.inspect.trace import standalone

ANSWERS = json.loads((behaviour.HERE / "answers.json").read_text(encoding="utf-8"))
RUNS, TRACES = sorted(ANSWERS["runs"]), sorted(ANSWERS["traces"])
CLOSE = 2e-5
"""Of numbers that are stored with five digits, and of float32 sums in another order."""
LEARNED = 1e-3
"""Of losses after updates: Adam divides by gradients that another processor rounds differently."""


def same(mine: Any, right: Any, tolerance: float, where: str = "") -> None:
    """Texts are equal, numbers close, and containers have the same shape."""
    if isinstance(right, dict):
        assert list(mine) == list(right), where
        for name, value in right.items():
            same(mine[name], value, tolerance, f"{where}.{name}")
    elif isinstance(right, list | tuple):
        assert len(mine) == len(right), where
        for place, value in enumerate(right):
            same(mine[place], value, tolerance, f"{where}[{place}]")
    elif isinstance(right, float):
        assert mine == pytest.approx(right, rel=tolerance, abs=tolerance), where
    else:
        assert mine == right, where


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a run, which may be changed, used from where its data are."""
    monkeypatch.chdir(behaviour.DATA)
    return Path(shutil.copytree(behaviour.RUNS / request.param, tmp_path / request.param))


every_run = pytest.mark.parametrize("run", RUNS, indirect=True)
every_trace = pytest.mark.parametrize("name", TRACES)


def test_the_answers_are_of_all_that_is_here() -> None:
    assert [path.name for path in sorted(behaviour.RUNS.iterdir())] == RUNS
    assert [path.stem for path in sorted(behaviour.TRACES.iterdir())] == TRACES


@every_run
def test_a_run_gives_the_same_answers(run: Path) -> None:
    same(behaviour.outputs(run), ANSWERS["runs"][run.name]["outputs"], CLOSE)


@every_run
def test_a_run_has_the_same_scores(run: Path) -> None:
    same(behaviour.scores(run), ANSWERS["runs"][run.name]["scores"], CLOSE)


@every_run
def test_a_run_goes_on_training_with_the_same_losses(run: Path) -> None:
    same(behaviour.resumed(run), ANSWERS["runs"][run.name]["resumed"], LEARNED)


@every_run
def test_the_report_of_a_run_has_the_same_figures_and_sections(run: Path) -> None:
    assert behaviour.reported(run) == ANSWERS["runs"][run.name]["report"]


@every_trace
def test_a_trace_shows_the_same_weights_and_tiles(name: str) -> None:
    mine, right = behaviour.described(read_trace(behaviour.TRACES / f"{name}.trace")), ANSWERS["traces"][name]
    assert {**mine, "sites": len(mine["sites"])} == {**right, "sites": len(right["sites"])}
    for my_site, site in zip(mine["sites"], right["sites"], strict=True):
        assert {**my_site, "heads": len(my_site["heads"])} == {**site, "heads": len(site["heads"])}
        for my_head, head in zip(my_site["heads"], site["heads"], strict=True):
            np.testing.assert_allclose(my_head["weights"], head["weights"], atol=CLOSE)
            for tile in ("peak", "mass"):
                assert np.abs(np.array(my_head[tile]) - code_since(np.array(head[tile]))).max() <= 1


def code_since(codes: np.ndarray) -> np.ndarray:
    """The codes that weights have now. In version 0.1 the code of 1 was 0."""
    return np.where(codes < UNKNOWN, np.minimum(codes + ONE, SMALLEST), codes)


@every_trace
def test_a_trace_becomes_a_page_and_comes_back_from_disk(name: str, tmp_path: Path) -> None:
    trace = read_trace(behaviour.TRACES / f"{name}.trace")
    assert re.search('id="trace">[A-Za-z0-9+/]{40}', standalone(trace))
    write_trace(trace, tmp_path / "again.trace")
    assert behaviour.described(read_trace(tmp_path / "again.trace")) == behaviour.described(trace)


def test_an_export_has_the_names_and_the_numbers_that_programs_were_written_for(tmp_path: Path) -> None:
    behaviour.command("export", behaviour.RUNS / "classify_transformer", "--to", "onnx", tmp_path / "export")
    before = behaviour.EXPORT / "classify_transformer"
    assert {path.name for path in (tmp_path / "export").iterdir()} == {path.name for path in before.iterdir()}
    tokens = {"tokens": np.array([[1, 4, 5, 6, 2], [1, 7, 2, 0, 0]]), "lengths": np.array([5, 3])}
    answers = []
    for folder in (tmp_path / "export", before):
        (graph,) = folder.glob("*.onnx")
        answers.append(onnxruntime.InferenceSession(graph).run(["logits", "weights"], tokens))
    for mine, right in zip(*answers, strict=True):
        np.testing.assert_allclose(mine, right, atol=CLOSE)
