"""`--processes` trains a run in several processes, which begin again when one is killed; refusals name the setting."""

import itertools
import os
import shutil
import signal
import socket
from argparse import Namespace
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor
from torch.distributed.run import parse_args

from foveate import machine
from foveate.cli import resume, supervision, training
from foveate.cli.program import build_parser
from foveate.errors import UsageError
from foveate.storage.checkpoint import FINAL, MODEL, OPTIMISER, STATE
from foveate.storage.manifest import file_digest, sealed_folder
from foveate.storage.portion import Portion, portion_name, write_portions
from foveate.storage.tensor import read_tensors
from foveate.train import world
from foveate.train.world import World

SET = "--set"
SHARED = (
    *(SET, "train.accumulate=3", SET, "train.reduction=exact", SET, "train.steps=12"),
    *(SET, "train.validate_every=6", SET, "train.save_every=3"),
)
DISASTERS = """
import os, signal, sys

def watch(event, arguments):
    if event == "os.rename":
        name = os.path.basename(os.fsdecode(arguments[1]))
        if name == "step-00000006" and not os.path.exists(MARK):
            open(MARK, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        if name == "step-00000009":
            heard, signalled = os.pipe()
            os.set_blocking(signalled, False)
            signal.set_wakeup_fd(signalled)
            os.kill(os.getppid(), signal.SIGINT)
            os.read(heard, 1)

if os.environ.get("RANK") == "0":
    sys.addaudithook(watch)
"""
"""Kills the first process in the save of step 6, once; interrupts the command in that of step 9, and waits until the
signal has come back."""


@pytest.mark.skipif(os.name == "nt", reason="the signals are those of POSIX")
def test_a_killed_process_begins_again_and_an_interrupted_run_ends_like_one_process(
    recipe: tuple[str, ...],
    foveate: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    alone, together = tmp_path / "alone", tmp_path / "together"
    assert foveate(*recipe, *SHARED, "--out", alone).code == 0
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sitecustomize.py").write_text(f"MARK = {str(tmp_path / 'killed')!r}\n{DISASTERS}")
    before = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "path"), *filter(None, [before])]))
    said = foveate(*recipe, *SHARED, "--out", together, "--processes", 2)
    assert said.code == 130, said.err
    assert "2 processes with 1 thread each." in said.err
    assert "A process was killed: rank 0 by SIGKILL. All begin again from the checkpoint of step 3." in said.err
    told = capfd.readouterr().err
    assert "Stopped at step 10; everything is saved. Continue with:  foveate resume" in told
    assert "no checkpoint yet" not in told
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert foveate("resume", together).code == 0
    assert file_digest(together / "model.safetensors") == file_digest(alone / "model.safetensors")


def divide(checkpoint: Path) -> None:
    """Replaces a checkpoint by that of two processes with parts of the model."""
    tensors = {name: read_tensors(checkpoint / name) for name in (MODEL, OPTIMISER)}
    with sealed_folder(checkpoint) as folder:
        shutil.copy(checkpoint / STATE, folder)
        for name, number in itertools.product(tensors, range(2)):
            parts = {key: part for key, tensor in tensors[name].items() for part in half(tensor, number)}
            write_portions(folder / portion_name(name, number, 2), parts)


def half(tensor: Tensor, number: int) -> list[Portion]:
    """The rows of one of two processes; a tensor without rows belongs to the first one."""
    if not tensor.ndim:
        return [] if number else [Portion.all_of(tensor)]
    middle = (len(tensor) + 1) // 2
    rows = tensor[middle:] if number else tensor[:middle]
    return [Portion(rows.contiguous(), middle * number, tensor.shape)]


def test_commands_read_what_several_processes_have_saved_in_parts_as_if_it_were_whole(
    foveate: Any, corpus: Path, trained: Path, run: Path, tmp_path: Path
) -> None:
    few = [tmp_path / name for name in ("source.txt", "target.txt")]
    for path in few:
        path.write_text("".join((corpus / path.name).read_text().splitlines(keepends=True)[:5]))
    for name in (MODEL, FINAL):
        (run / name).unlink()
    whole = Path(shutil.copytree(run, tmp_path / "whole"))
    for checkpoint in list((run / "checkpoints").iterdir()):
        divide(checkpoint)
    for words in (("translate", "a b c", "--n-best", 2), ("evaluate", "--source", few[0], "--target", few[1])):
        said = [foveate(words[0], folder, *words[1:]) for folder in (run, whole)]
        assert (said[0].code, said[0].out) == (0, said[1].out)
    assert foveate("resume", run).code == 0
    assert file_digest(run / MODEL) == file_digest(trained / MODEL)
    for folder in (run, whole):
        said = foveate("resume", folder, SET, "train.steps=123")
        assert said.code == 0, said.err
    assert file_digest(run / MODEL) == file_digest(whole / MODEL)
    assert file_digest(run / MODEL) != file_digest(trained / MODEL)


def test_more_processes_than_batches_are_refused_before_the_data_are_read(
    recipe: tuple[str, ...], foveate: Any, tmp_path: Path, trained: Path
) -> None:
    for said in (
        foveate(*recipe, "--out", tmp_path / "run", "--processes", 2),
        foveate("resume", trained, "--processes", 2),
    ):
        assert said.code == 2
        assert "2 processes cannot share the 1 batch of an update (train.accumulate = 1)" in said.err
        assert "--set train.accumulate=2" in said.err
    assert not (tmp_path / "run").exists()


def test_more_processes_than_batches_leave_no_run_behind_also_by_torchrun(
    recipe: tuple[str, ...], foveate: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class First(World):
        size = 2

    monkeypatch.setattr(world, "joined", lambda: nullcontext(First()))
    said = foveate(*recipe, "--out", tmp_path / "run")
    assert said.code == 2
    assert "2 processes cannot share the 1 batch of an update (train.accumulate = 1)" in said.err
    assert not (tmp_path / "run").exists()


def test_processes_of_one_launch_have_the_same_words(
    recipe: tuple[str, ...], foveate: Any, tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a comparison those of the first process would have an effect, and the others none."""
    told: list[Mapping[str, Any]] = []

    class Second(World):
        rank, size = 1, 2

        def require_equal(self, facts: Mapping[str, Any]) -> None:
            told.append(facts)
            raise UsageError("They are not alike.")

    monkeypatch.setattr(world, "joined", lambda: nullcontext(Second()))
    toml = tmp_path / "run.toml"
    for text, steps in (("", 4), ("[train]\nseed = 1\n", 5)):
        toml.write_text(text)
        assert foveate(*recipe, toml, SET, f"train.steps={steps}", "--out", tmp_path / "new", "--threads", 1).code == 2
        assert foveate("resume", trained, SET, f"train.steps={steps}").code == 2
    begun, resumed, other_begun, other_resumed = told
    assert (resumed, other_resumed) == ({"--set train.steps": "4"}, {"--set train.steps": "5"})
    different = {name for name in begun if begun[name] != other_begun[name]}
    assert different == {"--set train.steps", "the TOML file's SHA-256"}
    assert {"--task", "--source"} < set(begun)
    assert not {"--out", "--threads", "--config"} & set(begun)


def test_the_command_leaves_its_switches_for_the_processes_to_report(
    recipe: tuple[str, ...], foveate: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "supervise", lambda *_: 0)
    monkeypatch.setattr(machine, "tune", machine.by_rules)
    words = [word for word in recipe if word != "--no-tune"]
    said = foveate(*words, *SHARED, "--out", tmp_path / "run", "--processes", 2)
    assert said.code == 0, said.err
    assert "Switches" not in said.err


def test_a_restarted_process_leaves_the_first_one_to_say_whether_the_run_has_begun(
    recipe: tuple[str, ...], foveate: Any, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Second(World):
        rank, size = 1, 2

        def once(self, work: Callable[[], Any], *, during: str = "") -> Any:
            asked.append(during)

    monkeypatch.setattr(world, "joined", lambda: nullcontext(Second()))
    monkeypatch.setattr(world, "restarts", lambda: 1)
    monkeypatch.setattr(resume, "proceed", lambda *_: 0)
    assert foveate(*recipe, "--out", trained).code == 0
    assert asked == ["the preparation of the data"]


def test_the_same_launch_goes_on_where_no_machine_has_counted_a_restart(
    recipe: tuple[str, ...], foveate: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that replaces a lost one counts none, and those that follow it neither."""

    class First(World):
        size = 2

    monkeypatch.setattr(world, "joined", lambda: nullcontext(First()))
    monkeypatch.setattr(training, "train", lambda *_, **__: 0)
    proceeded: list[Path] = []
    monkeypatch.setattr(resume, "proceed", lambda saved, *_: proceeded.append(saved.folder) or 0)
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")

    def starts(launch: str, *words: Any) -> int:
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", launch)
        return int(foveate(*recipe, SET, "train.accumulate=2", *words, "--out", tmp_path / "named").code)

    assert starts("job 7") == 0
    assert not proceeded
    assert starts("job 7") == 0
    assert proceeded == [tmp_path / "named"]
    assert [starts("job 8"), starts("none"), starts("job 7", SET, "train.steps=99")] == [2, 2, 2]
    (tmp_path / "named" / "config.json").rename(tmp_path / "named" / ".beginning")
    assert starts("job 7") == 0  # the first start ended before the run was ready
    assert len(proceeded) == 1


def test_a_port_that_is_in_use_is_named(foveate: Any, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        variables = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        said = foveate("resume", trained)
    assert said.code == 5
    assert f"Rank 0 of 2 has not met the others at 127.0.0.1:{port} (MASTER_ADDR, MASTER_PORT)" in said.err
    assert "EADDRINUSE" in said.err


@pytest.mark.parametrize(
    ("wrong", "limit"),
    [
        ({"WORLD_SIZE": "two"}, ""),
        ({"WORLD_SIZE": "-2"}, ""),
        ({"RANK": "2"}, " below 2"),
        ({"MASTER_PORT": "65536"}, " below 65,536"),
    ],
)
def test_variables_that_no_launcher_sets_are_named(
    foveate: Any, trained: Path, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str], limit: str
) -> None:
    sound = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    for name, value in {**sound, **wrong}.items():
        monkeypatch.setenv(name, value)
    said = foveate("resume", trained)
    ((name, value),) = wrong.items()
    assert said.code == 2
    assert f"{name} is '{value}', but launchers such as torchrun set a whole number{limit} there" in said.err


def test_processes_inside_torchrun_are_refused(
    recipe: tuple[str, ...], foveate: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from foveate.cli.supervision import require_processes

    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="torchrun has started several processes already"):
        require_processes(2, 4)


@pytest.mark.parametrize("command", ["train", "resume"])
def test_torchrun_takes_no_option_of_ours_for_its_own(command: str) -> None:
    options = build_parser([command]).commands[command]._option_string_actions
    words = [command, *(name for name in options if name.startswith("--")), "run"]
    parsed = parse_args(["--nproc-per-node=2", "-m", "foveate", *words])
    assert parsed.training_script_args == words


@pytest.mark.parametrize(
    ("reduction", "threads", "words"),
    [("fast", None, "the last bits differ"), ("exact", None, "give --threads 2"), ("exact", 2, "")],
)
def test_what_the_bits_depend_on_is_said_when_processes_begin(
    reduction: str,
    threads: int | None,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(supervision, "_cores", lambda: 4)
    monkeypatch.setattr(supervision, "_launch", lambda *_: (0, ""))
    arguments = Namespace(processes=2, threads=threads, quiet=False, no_tune=True, debug=False)
    assert supervision.supervise(tmp_path, arguments, [], reduction) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "2 processes with 2 threads each." in said
    assert words in said
    assert ("bits" in said) == bool(words)
