"""The live viewer of notebooks: its model in Python, without a notebook."""

import json
import threading
from typing import Any

import numpy as np
import pytest
import torch

from foveate.attention import Attention, causal, record
from foveate.errors import SetupError, UsageError
from foveate.inspect import Trace, TraceProvider, notebook, widget
from foveate.inspect.notebook import Answers


@pytest.fixture(scope="module")
def trace() -> Trace:
    torch.manual_seed(0)
    site = Attention(visibility=causal())
    with record(site) as recording:
        site.run(x := torch.randn(1, 2, 70, 8), x, x)
    return Trace.of(recording)


def asked(answers: Answers, method: str, *args: Any) -> tuple[dict[str, Any], list[bytes]]:
    calls: list[tuple[dict[str, Any], list[bytes]]] = []
    answers.hear({"id": "view/1", "method": method, "args": list(args)}, lambda *words: calls.append(words)).result()
    return calls[-1]


def test_every_question_of_the_viewer_is_answered_as_the_provider_does(trace: Trace) -> None:
    answers, provider = Answers(trace), TraceProvider(trace)
    place = {"site": 0, "head": 1, "level": 0, "row": 0, "column": 0, "pool": "peak"}
    answer, (codes,) = asked(answers, "tile", place)
    assert answer == {"id": "view/1", "array": "uint16"}
    np.testing.assert_array_equal(np.frombuffer(codes, "<u2").reshape(256, 256), provider.tile(0, 1, 0, 0, 0))
    np.testing.assert_array_equal(np.frombuffer(asked(answers, "row", 0, 1, 69)[1][0], "<f4"), provider.row(0, 1, 69))
    np.testing.assert_array_equal(np.frombuffer(asked(answers, "counts", 0, 0)[1][0], "<u4"), np.arange(1, 71))
    assert asked(answers, "value", 0, 0, 5, 4)[0]["value"]["weight"] == provider.value(0, 0, 5, 4).weight
    answer, (codes,) = asked(answers, "overview", 0, 0)
    assert answer["thumbnail"] == {"estimate": False}
    assert len(codes) == 64 * 64 * 2
    answer, _ = asked(answers, "statistics", 0)
    assert not answer["value"]["estimate"]
    assert answer["value"]["behaviours"] == [each.behaviour for each in provider.statistics(0)]
    assert answer["value"]["heads"][1] == {n: v or 0 for n, v in provider.statistics(0)[1].means().items()}
    assert asked(answers, "meta")[0]["value"] == {**trace.header(), "attached": False}
    assert asked(answers, "steps", 0, 0, 2)[0]["value"][0]["symbol"] == "q₂"
    answer, (whole,) = asked(answers, "numbers", 0)
    assert answer == {"id": "view/1", "array": "uint8"}
    entries = json.loads(whole[4 : 4 + int.from_bytes(whole[:4], "little")])["tensors"]
    assert {entry["name"]: entry["shape"] for entry in entries} == {
        name: list(tensor.shape) for name, tensor in trace.sites[0].tensors.items()
    }


def test_a_slow_tile_is_guessed_first(trace: Trace) -> None:
    calls: list[dict[str, Any]] = []
    place = {"site": 0, "head": 0, "level": 5, "row": 0, "column": 0, "pool": "peak"}
    Answers(trace).hear({"id": "1", "method": "tile", "args": [place]}, lambda answer, _: calls.append(answer)).result()
    assert calls == [{"id": "1", "array": "uint16", "guess": True}, {"id": "1", "array": "uint16"}]


@pytest.mark.parametrize(
    ("method", "args"),
    [("close", []), ("__init__", []), ("row", [0, 9, 0]), ("row", [7, 0, 0]), ("row", []), ("tile", None)],
)
def test_a_question_that_is_none_gets_an_error_and_nothing_runs(trace: Trace, method: str, args: Any) -> None:
    calls: list[dict[str, Any]] = []
    Answers(trace).hear({"id": "1", "method": method, "args": args}, lambda answer, _: calls.append(answer)).result()
    assert calls[0]["error"]
    assert not calls[0]["aborted"]


def test_what_is_called_off_stops(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    answers, message, begun = Answers(trace), [], threading.Event()

    def tile(*_: Any, cancelled: Any) -> None:
        begun.set()
        while not cancelled():
            pass
        raise notebook.CancelledError

    monkeypatch.setattr(answers.provider, "tile", tile)
    place = {"site": 0, "head": 0, "level": 0, "row": 0, "column": 0, "pool": "peak"}
    future = answers.hear({"id": "a/1", "method": "tile", "args": [place]}, lambda answer, _: message.append(answer))
    begun.wait()
    answers.hear({"stop": "a/1"}, lambda *_: None)
    future.result()
    assert message == [{"id": "a/1", "error": "called off", "aborted": True}]
    assert answers.hear({"stop": "a/1"}, lambda *_: None) is None


def test_the_widget_carries_the_viewer_and_no_numbers(trace: Trace) -> None:
    live = widget(trace, height=500)
    assert live.height == 500
    assert 'data-port=""' in live.page
    assert "default-src 'none'" in live.page
    assert 'id="trace"' not in live.page
    assert len(live.page) < 320_000
    assert 'setAttribute("sandbox",' in live._esm.replace("`", '"')


def test_the_widget_hears_and_sends(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    live, sent = widget(trace), []
    done = threading.Event()

    def send(content: dict[str, Any], buffers: list[bytes]) -> None:
        sent.append((content, buffers))
        done.set()

    monkeypatch.setattr(type(live), "send", staticmethod(send))
    live._handle_custom_msg({"id": "v/3", "method": "row", "args": [0, 0, 0]}, [])
    assert done.wait(10)
    assert sent[0][0] == {"id": "v/3", "array": "float32"}
    assert np.frombuffer(sent[0][1][0], "<f4")[0] == pytest.approx(1.0)


def test_the_widget_looks_where_python_says_as_far_as_that_is_there(trace: Trace) -> None:
    live = widget(trace)
    live.head, live.cursor = 1, (69, 3)
    assert (live.site, live.head, live.cursor) == (0, 1, [69, 3])
    state = live.get_state()
    assert (state["site"], state["head"], state["cursor"]) == (0, 1, [69, 3])
    for name, value, message in (
        ("site", 1, "There is no site 1: the trace has 1, counted from 0"),
        ("head", 2, "There is no head 2: attention has 2, counted from 0"),
        ("cursor", (70, 0), "70 queries and 70 keys"),
    ):
        with pytest.raises(UsageError, match=message):
            setattr(live, name, value)
    live.cursor = None
    assert live.cursor is None


def test_a_missing_package_is_named_with_its_installation(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> type:
        raise ImportError(name="anywidget")

    monkeypatch.setattr(notebook, "_kind", missing)
    with pytest.raises(SetupError, match=r"needs anywidget: `pip install 'foveate\[notebook\]'`"):
        widget(trace)
