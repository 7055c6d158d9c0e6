from pathlib import Path

import pytest

from foveate.errors import DataError, SetupError, UsageError
from foveate.storage.manifest import read_json, write_json
from foveate.storage.run import create_run, read_run


def test_a_run_says_what_it_is(tmp_path: Path) -> None:
    create_run(tmp_path / "run", "translate", {"seed": 1})
    found = read_run(tmp_path / "run")
    assert (found.folder, found.task, found.config) == (tmp_path / "run", "translate", {"seed": 1})


def test_a_run_is_never_begun_twice(tmp_path: Path) -> None:
    create_run(tmp_path, "translate", {})
    with pytest.raises(UsageError, match="holds a run already"):
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


@pytest.mark.parametrize("gone", ["task", "config"])
def test_a_damaged_description_is_refused(tmp_path: Path, gone: str) -> None:
    create_run(tmp_path, "translate", {})
    content = read_json(tmp_path / "config.json")
    del content[gone]
    write_json(tmp_path / "config.json", content)
    with pytest.raises(DataError, match=rf"config\.json has no {gone}"):
        read_run(tmp_path)


def test_a_run_of_another_format_is_refused(tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"format": 9, "task": "translate", "config": {}})
    with pytest.raises(DataError, match="has run format 9, but this version of foveate reads format 1"):
        read_run(tmp_path)
