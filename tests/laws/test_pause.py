"""What a model process answers in the pauses of a long answer, and the long answer itself, are what each gets alone."""

import socket
import time
from pathlib import Path
from typing import Any

import pytest

from foveate.serve.service.message import Question, Reply
from foveate.serve.service.model_process import ModelProcess
from foveate.storage.run import read_run
from foveate.storage.shipped import run_folder
from foveate.tasks import task_of
from foveate.tasks.served import Served

RUNS = Path(__file__).parents[1] / "golden/version_0_1/runs"
TEXTS = {
    "en-fr": (
        [
            "The two disciples heard him speak, and they followed Jesus.",
            "This package contains a free strategy game with modern graphics.",
            "He gave the book to his son because he could not read it.",
        ],
        [
            "Open the file.",
            "Good morning.",
            "A new window is open.",
            "The list is empty.",
            "Save it now.",
            "Two files.",
        ],
    ),
    str(RUNS / "language_model_gpt"): (["abcab abcab abc", "cabcab ab"], ["ab", "cab c", "b", "abc ab"]),
}
SETTINGS: dict[str, dict[str, Any]] = {"answer": {"alternatives": 2}, "explain": {}}
SHORT_SETTINGS: dict[str, dict[str, Any]] = {"en-fr": {}, str(RUNS / "language_model_gpt"): {"seed": 3}}


def served(run: str) -> Served:
    return task_of(read_run(run_folder(run))).side.served(run, precision="float32", note=print)


@pytest.mark.parametrize(
    ("kind", "run", "flies"),
    [("answer", "en-fr", "en-fr"), *(("explain", one, other) for one in TEXTS for other in TEXTS)],
)
def test_each_gets_what_it_gets_alone(kind: Any, run: str, flies: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is explained does not answer meanwhile, because its modules are watched; others do."""
    models = {name: served(name) for name in {run, flies}}
    monkeypatch.setattr(models[run], "explain", lambda text, settings: maps(models[run], text))
    settings, long_texts, short_texts = SETTINGS[kind], TEXTS[run][0], TEXTS[flies][1]
    long = alone(models[run], kind, long_texts, settings)
    short_settings = SHORT_SETTINGS[flies]
    short = [alone(models[flies], "answer", [text], short_settings) for text in short_texts]
    own, other = socket.socketpair()
    said: list[Any] = []
    with own, other:
        process = ModelProcess(own)
        process.models, process.digests = models, {run: ""}
        flight = models[flies].flight()
        assert flight is not None
        process.flights = {flies: flight}
        process.send = said.append  # type: ignore[method-assign]
        for number, text in enumerate(short_texts):
            question = Question(number, flies, "answer", [text], short_settings, 60.0, 1)
            process.waiting.append((question, time.monotonic() + 60))
        process.share._credit = 1e9  # seconds: all of them are answered in the first pauses
        process._answer([Question(100, run, kind, long_texts, settings, 60.0, 1)])
        first = next(reply for reply in said if isinstance(reply, Reply))
        assert (first.number == 100) == (kind == "explain" and run == flies)
        while process.waiting or process.flying:
            for question, until in process._joining():
                process._board(question, until)
            process._tick_all()
    replies = [reply for reply in said if isinstance(reply, Reply)]
    assert len(replies) == 1 + len(short_texts), said
    answers = {reply.number: reply.values for reply in replies}
    assert [answers[number] for number in range(len(short_texts))] == short
    assert answers[100] == ([{"digest": "", **each} for each in long] if kind == "explain" else long)


def maps(model: Served, text: str) -> dict[str, Any]:
    """All numbers of an explanation."""
    trace, _ = model.traced(text, {})
    return {f"{site.name} {name}": tensor.tolist() for site in trace.sites for name, tensor in site.tensors.items()}


def alone(model: Served, kind: str, texts: list[str], settings: dict[str, Any]) -> list[Any]:
    if kind == "explain":
        return [model.explain(text, settings) for text in texts]
    return [answer.value for answer in model.answer(texts, settings)]
