"""What a model process answers in the pauses of a long answer, and the long answer itself, are what each gets alone."""

import socket
import time
from typing import Any

import pytest

from foveate.serve.service.message import Question, Reply
from foveate.serve.service.model_process import ModelProcess
from foveate.storage.run import read_run
from foveate.storage.shipped import run_folder
from foveate.tasks import task_of
from foveate.tasks.served import Served

LONG = [
    "The two disciples heard him speak, and they followed Jesus.",
    "This package contains a free strategy game with modern graphics.",
    "He gave the book to his son because he could not read it.",
]
SHORT = ["Open the file.", "Good morning.", "A new window is open.", "The list is empty.", "Save it now.", "Two files."]
SETTINGS: dict[str, dict[str, Any]] = {"answer": {"alternatives": 2}, "explain": {"top": 3}}


@pytest.fixture(scope="module")
def model() -> Served:
    folder = run_folder("en-fr")
    return task_of(read_run(folder)).side.served("en-fr", precision="float32", note=print)


@pytest.mark.parametrize("kind", ["answer", "explain"])
def test_each_gets_what_it_gets_alone(model: Served, kind: Any) -> None:
    settings = SETTINGS[kind]
    long = alone(model, kind, LONG, settings)
    short = [alone(model, "answer", [text], {}) for text in SHORT]
    own, other = socket.socketpair()
    said: list[Any] = []
    with own, other:
        process = ModelProcess(own)
        process.models, process.digests = {"en-fr": model}, {"en-fr": ""}
        flight = model.flight()
        assert flight is not None
        process.flights = {"en-fr": flight}
        process.send = said.append  # type: ignore[method-assign]
        for number, text in enumerate(SHORT):
            process.waiting.append((Question(number, "en-fr", "answer", [text], {}, 60.0, 1), time.monotonic() + 60))
        process._answer([Question(100, "en-fr", kind, LONG, settings, 60.0, 1)])
        while process.waiting or process.flying:
            process._spend()
            process._credit = 1.0
    assert all(isinstance(reply, Reply) for reply in said), said
    answers = {reply.number: reply.values for reply in said}
    assert [answers[number] for number in range(len(SHORT))] == short
    assert answers[100] == ([{"digest": "", **each} for each in long] if kind == "explain" else long)
    assert said[0].number != 100, "nothing was answered in a pause"


def alone(model: Served, kind: str, texts: list[str], settings: dict[str, Any]) -> list[Any]:
    if kind == "explain":
        return [model.explain(text, settings) for text in texts]
    return [answer.value for answer in model.answer(texts, settings)]
