from pathlib import Path

import pytest

from foveate.errors import DataError, SetupError, UsageError
from foveate.storage.manifest import read_json, write_json
from foveate.storage.run import create_run, read_run


def test_a_run_says_what_it_is(tmp_path: Path) -> None:
    create_run(tmp_path / "run", "translate", {"seed": 1})
    run = read_run(tmp_path / "run")
    assert (run.folder, run.task, run.config) == (tmp_path / "run", "translate", {"seed": 1})


def test_a_run_is_never_begun_twice(tmp_path: Path) -> None:
    create_run(tmp_path, "translate", {})
    with pytest.raises(UsageError, match="contains a run already"):
        create_run(tmp_path, "translate", {})


def test_a_run_cannot_be_where_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        create_run(tmp_path / "file", "translate", {})
    with pytest.raises(SetupError, match="cannot be written: Not a directory"):
        create_run(tmp_path / "file" / "run", "translate", {})


def test_another_folder_is_refused_with_the_runs_inside_it(tmp_path: Path) -> None:
    create_run(tmp_path / "run", "translate", {})
    with pytest.raises(DataError, match=rf"is not a run folder.*Did you mean {tmp_path}/run\?"):
        read_run(tmp_path)


@pytest.mark.parametrize("key", ["task", "config"])
def test_a_damaged_description_is_refused(tmp_path: Path, key: str) -> None:
    create_run(tmp_path, "translate", {})
    content = read_json(tmp_path / "config.json")
    del content[key]
    write_json(tmp_path / "config.json", content)
    with pytest.raises(DataError, match=rf"config\.json has no {key}"):
        read_run(tmp_path)


def test_a_run_of_another_format_is_refused(tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"format": 9, "task": "translate", "config": {}})
    with pytest.raises(DataError, match="has run format 9, but this version of foveate reads format 1"):
        read_run(tmp_path)
