"""`foveate translate` answers short texts without torch, in the words of torch, and leaves everything else to it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from foveate.light.light_search import CloseError
from foveate.light.weight import NotSupportedError
from foveate.storage.manifest import read_json, write_json
from foveate.storage.shipped import run_folder
from foveate.tasks.translate.light_translator import LightTranslator

TEXTS = ("The black cat is sleeping. It is happy!", "", "Good morning 😀")
COMMAND = """
import sys
{before}
from foveate.cli import main
code = main(["translate", "en-fr", *{words!r}])
print(code, sys.modules.get("torch") is not None)
"""
WITHOUT_TORCH = 'sys.modules["torch"] = None'


@pytest.fixture
def torches(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Grows with every command that torch answers."""
    answers: list[bool] = []
    monkeypatch.setattr("foveate.cli.setup.prepare_machine", lambda *_, **__: answers.append(True))
    return answers


def python(*words: str, before: str = "") -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    program = COMMAND.format(before=before, words=words)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)


def test_torch_is_not_imported() -> None:
    assert python("Good morning.", "--align").stdout.splitlines()[-1] == "0 False"


def test_without_torch_a_text_is_answered_and_other_options_name_the_package() -> None:
    assert python("Good morning.", before=WITHOUT_TORCH).stdout == "Bonjour.\n0 False\n"
    said = python("Good morning.", "--precision", "bfloat16", before=WITHOUT_TORCH)
    assert said.stdout == "4 False\n"
    assert "The package torch is not installed. Run: pip install torch" in said.stderr


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--align", "--when", "consuming", "--head", "2"),
        ("--n-best", "3", "--beam", "5", "--set", "length_penalty.kind=wu"),
        ("--beam", "1", "--set", "max_length=4", "--no-split"),
    ],
    ids=" ".join,
)
def test_output_is_that_of_torch(options: tuple[str, ...], foveate: Any, torches: list[bool]) -> None:
    said = foveate("translate", "en-fr", *TEXTS, *options)
    assert not torches
    assert said == foveate("translate", "en-fr", *TEXTS, *options, "--engine", "own")
    assert torches


def test_lines_of_standard_input_are_read_once(foveate: Any, torches: list[bool]) -> None:
    lines = "\n".join(TEXTS).encode() + b"\n"
    said = foveate("translate", "en-fr", stdin=lines)
    assert said.out.count("\n") == len(TEXTS)
    assert not torches
    assert said == foveate("translate", "en-fr", "--engine", "own", stdin=lines)
    many = b"Yes.\n" * 66
    assert foveate("translate", "en-fr", "--beam", 1, stdin=many).out.count("\n") == 66
    assert len(torches) == 2


def test_what_needs_torch_gets_it(foveate: Any, torches: list[bool]) -> None:
    commands = (
        ("en-fr", "Yes.", "--precision", "bfloat16"),
        ("en-fr", "Yes.", "--ensemble", "en-fr"),
        ("en-fr", "Yes.", "--set", "kind=sample"),
        ("en-fr", "Yes.", "--set", "beam=0"),
        ("en-fr", "Yes.", "--align", "--layer", "9"),
        ("en-fr", "A long text " * 130),
        ("en-fr", "\ud800"),
    )
    for count, words in enumerate(commands, start=1):
        said = foveate("translate", *words)
        assert len(torches) == count, words
        assert "Traceback" not in said.err


def test_what_is_not_a_run_of_the_task_is_refused_at_once(foveate: Any, torches: list[bool], tmp_path: Path) -> None:
    run = _copied(tmp_path)
    write_json(run / "config.json", {**read_json(run / "config.json"), "task": "tag"})
    assert "is a run of the task tag" in foveate("translate", run, "Yes.").err
    assert f"{tmp_path / 'nowhere'}" in foveate("translate", tmp_path / "nowhere", "Yes.").err
    assert not torches


def test_a_decision_by_rounding_is_left_to_torch(
    foveate: Any, torches: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def close(*arguments: object, **settings: object) -> None:
        calls.append(arguments)
        raise CloseError

    monkeypatch.setattr("foveate.tasks.translate.light_translator.search", close)
    assert foveate("translate", "en-fr", "Good morning.").out == "Bonjour.\n"
    assert (len(calls), len(torches)) == (1, 1)


def test_damaged_weights_and_continued_runs_are_left_to_torch(foveate: Any, tmp_path: Path) -> None:
    run = _copied(tmp_path)
    assert LightTranslator.load(run).translate("Good morning.").text == "Bonjour."
    final = read_json(run / "model.json")
    (run / "checkpoints" / "step-00000200").mkdir(parents=True)
    write_json(run / "model.json", {**final, "step": 100})
    _refused(run, "continued")
    write_json(run / "model.json", {**final, "step": 300})
    LightTranslator.load(run)
    write_json(run / "model.json", {**final, "stored": ""})
    _refused(run, "the type I8")
    write_json(run / "model.json", final)
    record = read_json(run / "config.json")
    for damaged in (None, "transformer", []):
        write_json(run / "config.json", {**record, "config": {**record["config"], "model": damaged}})
        _refused(run, "not a Transformer")
    write_json(run / "config.json", record)
    content = bytearray((run / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (run / "model.safetensors").write_bytes(content)
    _refused(run, "not those that were saved")
    assert "is not the file that was saved" in foveate("translate", run, "Yes.").err


def _copied(folder: Path) -> Path:
    return Path(shutil.copytree(run_folder("en-fr"), folder / "run"))


def _refused(run: Path, reason: str) -> None:
    with pytest.raises(NotSupportedError, match=reason):
        LightTranslator.load(run)


def test_a_text_that_names_a_file_is_reported(foveate: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "letter.txt").write_text("Good morning.\n")
    said = foveate("translate", "en-fr", "letter.txt", "Good morning.")
    assert (said.code, len(said.out.splitlines())) == (0, 2)
    assert said.err.count("is read as a text") == 1
    assert "letter.txt is read as a text, and a file has this name: `< letter.txt` takes its lines." in said.err
