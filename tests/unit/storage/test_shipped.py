"""Models that come with the package: found by name, whole, and never taken for a folder of the user's."""

import json
from pathlib import Path

import pytest

from foveate.errors import DataError
from foveate.storage.manifest import file_digest
from foveate.storage.run import read_run
from foveate.storage.shipped import FOLDER, SHIPPED, run_folder, run_name


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", SHIPPED)
def test_a_name_is_a_folder_of_the_package(name: str) -> None:
    assert run_folder(name) == FOLDER / SHIPPED[name].run
    assert (run_folder(name) / "config.json").exists()
    assert (run_name(run_folder(name)), read_run(run_folder(name)).task) == (name, SHIPPED[name].task)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_model_keeps_no_path_and_no_data_of_its_training(name: str) -> None:
    data = read_run(run_folder(name)).config["data"]
    assert not [value for value in data.values() if isinstance(value, str) and value]
    assert not [path for path in run_folder(name).iterdir() if path.suffix not in {".json", ".md", ".safetensors"}]


@pytest.mark.parametrize("name", SHIPPED)
def test_the_weights_are_those_that_were_shipped_and_small(name: str) -> None:
    weights = run_folder(name) / "model.safetensors"
    assert file_digest(weights) == json.loads(weights.with_name("model.json").read_text("utf-8"))["sha256"]
    size = sum(path.stat().st_size for path in weights.parent.iterdir())
    assert size < (20_000_000 if name == "en-fr" else 1_000_000)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_model_has_a_card(name: str) -> None:
    card = (run_folder(name) / "README.md").read_text("utf-8")
    for section in ("## Data and licences", "## Scores", "## Intended use", "## Limits", "## Training"):
        assert section in card


def test_a_run_of_the_same_name_takes_precedence_with_a_message(here: Path) -> None:
    (here / "en-fr").mkdir()
    messages: list[str] = []
    assert run_folder("en-fr", messages.append) == FOLDER / "english_french"  # an empty folder is no run
    (here / "en-fr/config.json").write_text("{}")
    assert not messages
    assert run_folder("en-fr", messages.append) == Path("en-fr")
    assert messages == [f"en-fr is the run in {here / 'en-fr'}, not the model of this name that comes with foveate."]


def test_a_path_is_always_a_folder() -> None:
    assert run_folder("./en-fr") == run_folder(Path("en-fr")) == Path("en-fr")


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(DataError, match=r"en-rf is neither a folder here nor .* \(en-fr, .*\)\. Did you mean 'en-fr'"):
        run_folder("en-rf")
    with pytest.raises(DataError, match="Give the folder that `foveate train … --out` made"):
        run_folder("runs")
