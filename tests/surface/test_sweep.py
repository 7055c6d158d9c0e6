"""Every command with every option on runs of every task: it works, or says in a sentence why not. No traceback."""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foveate.cli.overwriting import OUTPUTS
from foveate.cli.program import build_parser
from foveate.data.graph import Graph
from foveate.data.graph_archive import write_graph
from foveate.data.waveform import wav
from foveate.inspect.figure.pixel import photograph
from foveate.tasks import TASKS

TEXTS = {
    "translate": ("--source", "ab cd\tba dc\n"),
    "language_model": ("--text", "a line of text\n"),
    "masked_language_model": ("--text", "a line of text\n"),
    "tag": ("--data", "a/D b/N a/D b/N\n"),
    "classify": ("--data", "aab\tx\nbba\ty\n"),
    "transcribe": ("--data", "one.npy\tab ba\n"),
    "speak": ("--data", "one.wav\tab ba\n"),
    "caption": ("--data", "one.png\tab ba\ntwo.png\tba\n"),
    "node": ("--edges", ""),
    "molecule": ("--data", "CCO\t-1.5\nc1ccccc1\t2\n"),
}
MODELS = {
    "translate": ("model.hidden_dim=4", "model.embedding_dim=4", "model.maxout_dim=4"),
    "language_model": ("model.block.model_dim=8", "model.block.num_heads=2", "model.num_layers=1"),
    "masked_language_model": ("model.block.model_dim=8", "model.block.num_heads=2", "model.num_layers=1"),
    "tag": ("model.encoder.hidden_dim=4", "model.embedding_dim=4"),
    "classify": ("model.encoder.hidden_dim=4", "model.embedding_dim=4"),
    "transcribe": ("model.subsampling.hidden_dim=8", "model.encoder=rnn", "model.encoder.hidden_dim=4"),
    "speak": ("model.hidden_dim=4", "model.embedding_dim=4", "model.encoder.hidden_dim=4", "data.max_length=60"),
    "caption": ("model.encoder.channels=[4,4]", "model.decoder.hidden_dim=4"),
    "node": ("model.num_heads=2", "model.head_dim=2"),
    "molecule": ("model.encoder.num_layers=1", "model.hidden_dim=8"),
}
CALLS = {
    "translate": ("RUN", "ab"),
    "tag": ("RUN", "a b"),
    "classify": ("RUN", "ab"),
    "generate": ("RUN", "a", "--length", "5"),
    "fill": ("RUN", "a ___ b"),
    "transcribe": ("RUN", "one.npy"),
    "speak": ("RUN", "ab", "--out", "OUT.wav"),
    "caption": ("RUN", "one.png"),
    "predict": ("RUN", "1"),
    "evaluate": ("RUN",),
    "report": ("RUN",),
    "export": ("RUN", "OUT", "--to", "onnx"),
    "look": ("RUN", "ab", "--out", "OUT.txt"),
}
"""Each command with what it cannot do without."""
VECTORS = np.eye(40, 3, dtype=np.float32)
SOUND = wav(np.sin(np.arange(4_000) / 5), 8_000)
LEFT_OUT = {"--help", "--debug", "--threads", "--no-tune"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, foveate: Any) -> dict[str, Path]:
    """A run of each task, hardly trained."""
    folder, made = tmp_path_factory.mktemp("sweep"), {}
    np.save(folder / "one.npy", VECTORS)
    (folder / "one.wav").write_bytes(SOUND)
    draw(folder)
    random.seed(0)
    for task, (option, text) in TEXTS.items():
        data = written(task, folder / f"{task}.txt", text * 20)
        made[task] = folder / task
        size = () if task == "node" else ("data.max_tokens=512",)
        settings = [word for one in (*MODELS[task], "train.steps=1", *size) for word in ("--set", one)]
        said = foveate("train", task, option, data, "--out", made[task], "--no-tune", "--threads", "1", *settings)
        assert said.code == 0, said.err
    return made


def written(task: str, path: Path, text: str) -> Path:
    """The data of a task: text, or a graph."""
    if task != "node":
        path.write_text("smiles\ty\n" * (task == "molecule") + text)
        return path
    ring = np.array([range(20), [*range(1, 20), 0]])
    graph = Graph(features=np.eye(20, 4), edges=ring, labels=np.arange(20) % 2, classes=("even", "odd"))
    write_graph(graph, path.with_suffix(".npz"))
    return path.with_suffix(".npz")


def draw(folder: Path) -> None:
    """Two grey pictures."""
    for number, name in enumerate(("one", "two")):
        (folder / f"{name}.png").write_bytes(photograph(np.full((16, 16, 3), 100 * number, np.uint8)))


def values(action: argparse.Action, data: Path, out: Path) -> Iterator[list[str]]:
    """What may be written for an option."""
    if action.nargs == 0:
        yield []
    elif action.choices:
        yield from ([str(choice)] for choice in action.choices)
    elif action.metavar == "FILE":
        yield [str(data)]
        if action.dest in OUTPUTS:
            yield [f"{out}.html"]
    elif action.metavar == "A,B":
        yield ["0,1"]
        yield ["bleu"]
    elif action.metavar in ("A=B", "A.B=C"):
        yield ["max_length=3"]
        yield ["model.no_such=1"]
    else:
        yield from (["2"], ["99"])


def options(command: str) -> list[argparse.Action]:
    parser = build_parser([command]).commands[command]
    return [action for action in parser._actions if action.option_strings and action.option_strings[-1] not in LEFT_OUT]


@pytest.mark.parametrize("command", CALLS)
@pytest.mark.parametrize("task", TASKS)
def test_no_option_of_any_command_ends_in_a_traceback(
    foveate: Any, runs: dict[str, Path], task: str, command: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)  # where a folder or file named by a number may appear
    data, out = written(task, tmp_path / "data.tsv", TEXTS[task][1]), tmp_path / "out"
    np.save(tmp_path / "one.npy", VECTORS)
    (tmp_path / "one.wav").write_bytes(SOUND)
    draw(tmp_path)
    base = [
        {"RUN": str(runs[task]), "OUT": str(out), "OUT.txt": f"{out}.txt", "OUT.wav": f"{out}.wav"}.get(word, word)
        for word in CALLS[command]
    ]
    quick = ("--no-tune", "--threads", "1") if command != "export" else ()
    calls = [base]
    for action in options(command):
        for value in values(action, data, out):
            calls.append([*base, action.option_strings[-1], *value])
            if command == "evaluate" and action.dest not in ("source", "data", "text"):
                calls.append([*base, TEXTS[task][0], str(data), action.option_strings[-1], *value])
    for words in calls:
        written(task, tmp_path / "data.tsv", TEXTS[task][1])  # the call before may have written its report there
        said = foveate(command, *words, *quick)  # anything but a FoveateError comes through as what it is
        assert said.code in (0, 2, 3, 4), (words, said.err)
        assert said.code == 0 or said.err.strip(), words
        assert "Traceback" not in said.err, words


@pytest.mark.parametrize("command", ["train", "compare"])
@pytest.mark.parametrize("task", TASKS)
def test_files_of_another_task_are_refused(foveate: Any, task: str, command: str, tmp_path: Path) -> None:
    (tmp_path / "data.tsv").write_text(TEXTS[task][1])
    for name in {name for one in TASKS.values() for name in one.files} - set(TASKS[task].files):
        option = f"--{name.replace('_', '-')}"
        said = foveate(command, task, option, tmp_path / "data.tsv", "--out", tmp_path / "out")
        assert (said.code, f"{task} does not take {option}; it takes" in said.err) == (2, True), said.err
